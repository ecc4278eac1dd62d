#include "profiler/chrome/chrome_check.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval {

using nlohmann::json;

void ChromeCheck::refuse(const std::string& what) const {
  throw Error(ErrorKind::kRuntime, fmt::format("{}: traceEvents {}: {}", name_, event_, what));
}

int64_t ChromeCheck::integer(const json& event, const char* key) const {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_integer())
    refuse(fmt::format("{}: missing, or not an integer", key));
  return found->get<int64_t>();
}

// Times are microseconds with a fraction.
int64_t ChromeCheck::nanoseconds(const json& event, const char* key) const {
  constexpr double kNanosecondsPerMicrosecond = 1e3;
  constexpr double kMostMicroseconds = 1e13;
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) refuse(fmt::format("{}: missing, or not a number", key));
  const double us = found->get<double>();
  if (!(us >= 0 && us <= kMostMicroseconds))
    refuse(fmt::format("{}: {}; limit: 0 to {}", key, us, kMostMicroseconds));
  return std::llround(us * kNanosecondsPerMicrosecond);
}

std::string ChromeCheck::text(const json& event, const char* key) const {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_string() || found->get_ref<const std::string&>().empty())
    refuse(fmt::format("{}: missing, or not a text", key));
  return *found;
}

ChromeCheck::Thread ChromeCheck::thread_of(const json& event) const {
  return {integer(event, "pid"), integer(event, "tid")};
}

template <class Map>
void ChromeCheck::count_entry(const Map&) {
  constexpr size_t kNodeBytes = 48;  // bytes of a map's node beside its value
  bytes_ += kNodeBytes + sizeof(typename Map::value_type);
}

void ChromeCheck::add_slice(const json& event) {
  const auto [thread, is_new] = slices_.try_emplace(thread_of(event));
  if (is_new) count_entry(slices_);
  std::vector<Span>& slices = thread->second;
  const int64_t begin = nanoseconds(event, "ts");
  if (!slices.empty() && slices.back().begin_ns > begin) refuse("ts: before the thread's last slice");
  if (!slices.empty() && slices.back().end_ns > begin) refuse("ts: inside the thread's last slice");
  slices.push_back({begin, begin + nanoseconds(event, "dur")});
  bytes_ += sizeof(Span);
  ++num_slices_;
}

void ChromeCheck::add_counter(const json& event) {
  const int64_t at = nanoseconds(event, "ts");
  const auto args = event.find("args");
  const bool numbers = args != event.end() && args->is_object() && !args->empty() &&
                       std::all_of(args->begin(), args->end(), [](const json& v) { return v.is_number(); });
  if (!numbers) refuse("args: missing, or not numbers");
  const auto [last, first] = counters_.emplace(std::pair(integer(event, "pid"), text(event, "name")), at);
  if (first) {
    count_entry(counters_);
    bytes_ += last->first.second.size();
  }
  if (!first && last->second > at) refuse("ts: before the counter's last value");
  last->second = at;
}

void ChromeCheck::add_flow(const json& event, Flows& flows) {
  const FlowEnd end{thread_of(event), nanoseconds(event, "ts")};
  const int64_t id = integer(event, "id");
  if (!flows.emplace(id, end).second) refuse(fmt::format("id: flow {} appears twice", id));
  count_entry(flows);
}

void ChromeCheck::add(const json& event) {
  if (!event.is_object()) refuse("not an object");
  const std::string phase = text(event, "ph");
  text(event, "name");
  if (phase == "X") {
    add_slice(event);
  } else if (phase == "C") {
    add_counter(event);
  } else if (phase == "s") {
    add_flow(event, starts_);
  } else if (phase == "f") {
    if (text(event, "bp") != "e") refuse("bp: not e");
    add_flow(event, ends_);
  } else if (phase != "M") {
    refuse(fmt::format("ph: {}, not one of X M C s f", in_quotes(phase)));
  }
  ++event_;
}

void ChromeCheck::check_enclosed(int64_t id, const FlowEnd& end) const {
  const auto thread = slices_.find(end.thread);
  bool inside = false;
  if (thread != slices_.end()) {
    const auto after = std::upper_bound(thread->second.begin(), thread->second.end(), end.at_ns,
                                        [](int64_t at, const Span& span) { return at < span.begin_ns; });
    inside = after != thread->second.begin() && end.at_ns < (after - 1)->end_ns;
  }
  if (!inside) refuse(fmt::format("flow {}: one of its ends is in no slice", id));
}

void ChromeCheck::finish() const {
  if (starts_.size() != ends_.size())
    refuse(fmt::format("{} flows begin, {} end", starts_.size(), ends_.size()));
  for (const auto& [id, start] : starts_) {
    const auto end = ends_.find(id);
    if (end == ends_.end()) refuse(fmt::format("flow {}: no end", id));
    if (end->second.at_ns < start.at_ns) refuse(fmt::format("flow {}: ends before it begins", id));
    check_enclosed(id, start);
    check_enclosed(id, end->second);
  }
}

}  // namespace serval
