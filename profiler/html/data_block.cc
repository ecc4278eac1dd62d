#include "profiler/html/data_block.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "profiler/analysis/critical_path.h"
#include "profiler/analysis/edges.h"
#include "profiler/analysis/slices.h"
#include "profiler/analysis/tracks.h"
#include "profiler/chrome/gzip.h"
#include "profiler/html/columns.h"
#include "vm/base/base64.h"
#include "vm/base/error.h"

namespace serval::html {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
// Tracks have about this many points per token: one for every pixel or two.
constexpr int64_t kPointsOfToken = 800;
constexpr const char* kBandwidthTrack = "GB/s";
constexpr const char* kArithmeticTrack = "TFLOP/s";
constexpr const char* kBusyTrack = "busy SMs";

// A column with one value of each element.
template <class Number, class Range, class Of>
std::vector<Number> column(const Range& range, Of&& of) {
  std::vector<Number> out;
  out.reserve(range.size());
  for (const auto& element : range) out.push_back(static_cast<Number>(of(element)));
  return out;
}
template <class Range, class Of>
std::vector<uint64_t> numbers(const Range& range, Of&& of) {
  return column<uint64_t>(range, of);
}
template <class Range, class Of>
std::vector<int64_t> changing(const Range& range, Of&& of) {
  return column<int64_t>(range, of);
}

// Slices of a row follow each other, so that most gaps are 0. If the clocks of SMs disagree by a few
// nanoseconds, a slice begins when the one before it ends.
void add_slices(Columns& columns, const Trace& trace) {
  const std::vector<Slice> slices = slices_of(trace);
  std::vector<uint64_t> of_row(size_t{trace.program.machine.sms} * kNumSmRoles), gaps, durations;
  int64_t free_ns = 0;
  for (const Slice& s : slices) {
    uint64_t& count = of_row.at(index_of_role(s.sm, s.role));
    if (count++ == 0) free_ns = 0;
    const int64_t begin = std::max(s.begin_ns, free_ns);
    const int64_t end = std::max(s.end_ns, begin);
    gaps.push_back(static_cast<uint64_t>(begin - free_ns));
    durations.push_back(static_cast<uint64_t>(end - begin));
    free_ns = end;
  }
  columns.add("row.slices", of_row);
  columns.add("slice.gap", gaps);
  columns.add("slice.duration", durations);
  columns.add("slice.state", numbers(slices, [](const Slice& s) { return s.state; }));
  columns.add_differences("slice.execution", changing(slices, [](const Slice& s) { return s.execution; }));
}

// Times of events are relative to the execution's first one, plus one; 0 is an event that did not happen.
void add_executions(Columns& columns, const std::vector<Execution>& executions) {
  const auto changing_of = [&](const char* name, auto of) {
    columns.add_differences(name, changing(executions, of));
  };
  changing_of("execution.instruction", [](const Execution& x) { return x.instruction; });
  changing_of("execution.pass", [](const Execution& x) { return x.pass; });
  changing_of("execution.sm", [](const Execution& x) { return x.sm; });
  changing_of("execution.begin", [](const Execution& x) { return first_time(x); });
  columns.add("execution.bytes", numbers(executions, [](const Execution& x) { return x.bytes; }));
  for (size_t kind = 0; kind < kNumEventKinds; ++kind) {
    columns.add(fmt::format("execution.{}", kEventInfos[kind].name),
                numbers(executions, [&](const Execution& x) {
                  return x.at[kind] == kNever ? 0 : x.at[kind] - first_time(x) + 1;
                }));
  }
}

void add_edges(Columns& columns, const Trace& trace) {
  const std::vector<Edge> edges = edges_of(trace);
  columns.add_differences("edge.from", changing(edges, [](const Edge& e) { return e.from; }));
  columns.add_differences("edge.to", changing(edges, [](const Edge& e) { return e.to; }));
  columns.add_differences("edge.signalled", changing(edges, [](const Edge& e) { return e.signalled_ns; }));
  columns.add("edge.counter", numbers(edges, [](const Edge& e) { return e.counter; }));
}

void add_program(Columns& columns, const TraceProgram& program) {
  const std::vector<TraceInstruction>& all = program.instructions;
  using I = TraceInstruction;
  columns.add("instruction.op", numbers(all, [](const I& i) { return i.op; }));
  columns.add_differences("instruction.layer", changing(all, [](const I& i) { return i.layer; }));
  columns.add_differences("instruction.queue", changing(all, [](const I& i) { return i.queue; }));
  columns.add_differences("instruction.pc", changing(all, [](const I& i) { return i.pc; }));
  columns.add_texts("instruction.text", column<std::string>(all, [](const I& i) { return i.text; }));
  // Waits and signals are stored by instruction, whatever their order in the program.
  std::vector<Wait> waits;
  std::vector<Signal> signals;
  for (const I& i : all) {
    for (uint32_t w = 0; w < i.wait_count; ++w) waits.push_back(program.waits[i.wait_begin + w]);
    for (uint32_t s = 0; s < i.signal_count; ++s) signals.push_back(program.signals[i.signal_begin + s]);
  }
  columns.add("instruction.waits", numbers(all, [](const I& i) { return i.wait_count; }));
  columns.add("instruction.signals", numbers(all, [](const I& i) { return i.signal_count; }));
  columns.add("wait.counter", numbers(waits, [](const Wait& w) { return w.counter; }));
  columns.add("wait.threshold", numbers(waits, [](const Wait& w) { return w.threshold; }));
  columns.add("signal.counter", numbers(signals, [](const Signal& s) { return s.counter; }));
  columns.add("signal.increment", numbers(signals, [](const Signal& s) { return s.increment; }));
}

// Steps cover their window without gaps, so that their lengths are enough to place them.
void add_path(Columns& columns, const Trace& trace) {
  const std::vector<Edge> edges = edges_of(trace);
  std::vector<PathStep> steps;
  std::vector<uint64_t> of_window;
  for (const PassWindow& window : trace.windows) {
    const std::vector<PathStep> path = critical_path(trace, edges, window);
    steps.insert(steps.end(), path.begin(), path.end());
    of_window.push_back(path.size());
  }
  columns.add("window.steps", of_window);
  columns.add("path.duration", numbers(steps, [](const PathStep& s) { return s.end_ns - s.begin_ns; }));
  columns.add("path.role", numbers(steps, [](const PathStep& s) { return s.role; }));
  columns.add_differences("path.execution", changing(steps, [](const PathStep& s) { return s.execution; }));
}

// The limit that the track is compared with; 0: no line. Passes of a few rows compute so far below the limit
// of arithmetic that a scale up to there would show nothing of them.
double limit_of(const Track& track, const Report& report) {
  constexpr double kLeastShare = 0.1;
  if (track.name == kBandwidthTrack) return report.limit_gb_per_s;
  if (track.name != kArithmeticTrack) return 0;
  const bool near = std::any_of(track.points.begin(), track.points.end(), [&](const TrackPoint& p) {
    return p.value >= kLeastShare * report.limit_tflop_per_s;
  });
  return near ? report.limit_tflop_per_s : 0;
}

// Adds the tracks' points to the columns, and returns the other data that the page needs. `limit` is drawn as
// a line; the scale reaches at least up to `top`.
ordered_json add_tracks(Columns& columns, const Trace& trace, const Report& report) {
  const int64_t token_ns = trace.windows.front().length_ns();
  ordered_json out = ordered_json::array();
  const int64_t bin_ns = std::max<int64_t>(1, token_ns / kPointsOfToken);
  std::vector<Track> tracks = tracks_of(trace, bin_ns), links = link_tracks(trace, bin_ns);
  // The link's tracks come after the first two, since a low browser window shows only the first ones.
  tracks.insert(tracks.begin() + 2, links.begin(), links.end());
  for (const Track& track : tracks) {
    const std::string prefix = fmt::format("track.{}.", out.size());
    columns.add_differences(prefix + "time",
                            changing(track.points, [](const TrackPoint& p) { return p.at_ns; }));
    columns.add_floats(prefix + "value",
                       column<double>(track.points, [](const TrackPoint& p) { return p.value; }));
    out.push_back({{"name", track.name},
                   {"limit", limit_of(track, report)},
                   {"top", track.name == kBusyTrack ? trace.program.machine.sms : 0}});
  }
  return out;
}

// For one GPU the page does not mention ranks.
ordered_json describe_machine(const TraceProgram& program) {
  ordered_json out = {{"name", program.machine.name}, {"sms", program.machine.sms}};
  if (program.ranks > 1) out["ranks"] = program.ranks;
  return out;
}

ordered_json describe(const HtmlTrace& page) {
  const Trace& trace = page.trace;
  ordered_json events = ordered_json::array(), windows = ordered_json::array();
  for (const EventInfo& info : kEventInfos)
    events.push_back({{"name", info.name}, {"meaning", info.meaning}});
  for (const PassWindow& w : trace.windows)
    windows.push_back({{"pass", w.pass}, {"begin", w.begin_ns}, {"end", w.end_ns}});
  return {{"format", kFormat},
          {"name", page.name},
          {"source", kTraceSourceNames[static_cast<size_t>(trace.source)]},
          {"metadata", trace.metadata},
          {"machine", describe_machine(trace.program)},
          {"roles", kSmRoleNames},
          {"states", kSliceStateNames},
          {"events", events},
          {"ops", trace.program.ops},
          {"windows", windows},
          {"report", ordered_json::parse(to_json(page.report))}};
}

}  // namespace

std::string without_less_than(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string data_block(const HtmlTrace& page) {
  if (page.trace.windows.empty())
    throw Error(ErrorKind::kRuntime, fmt::format("{}: the trace has no complete pass", page.name));
  Columns columns;
  add_slices(columns, page.trace);
  add_executions(columns, page.trace.executions);
  add_edges(columns, page.trace);
  add_program(columns, page.trace.program);
  add_path(columns, page.trace);
  ordered_json head = describe(page);
  head["tracks"] = add_tracks(columns, page.trace, page.report);
  head["columns"] = columns.descriptions();
  const std::string json = head.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
  return without_less_than(json) + "\n" + base64(gzip(columns.bytes()));
}

}  // namespace serval::html
