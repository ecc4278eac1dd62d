#include "scheduler/happens_before.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace serval {
namespace {

constexpr uint32_t kNoEvent = 0xffffffff;
// A level takes as many bits as this, so no program needs more memory than one bit for each threshold.
constexpr size_t kThresholdsInBits = 32;

}  // namespace

HappensBefore::HappensBefore(const Program& program)
    : program_(program),
      partial_runs_(program),
      wait_events_(program.waits.size(), kNoEvent),
      signallers_(program.counters.size()),
      certain_(program.counters.size()),
      first_events_of_(program.instructions.size(), 0),
      sets_(1),
      known_(program.instructions.size(), 0) {
  find_order();
  if (stuck_) return;
  find_events();
  find_signallers();
  for (uint32_t c = 0; c < program.counters.size(); ++c) find_certain(c);
  find_first_events();
  sets_end_.assign(events_begin_.begin(), events_begin_.end() - 1);
  for (const uint32_t i : order_) known_[i] = known_before(i);
  for (uint32_t d = 0; d < program.num_devices; ++d) build_event_sets(program.gate_of(d), gate_events_[d]);
}

// Runs one pass with every queue in order. Counters only grow, so an instruction that can run now can also
// run later: if this order gets stuck, every order does. A global queue runs as if one SM took all of its
// records, which is the worst case.
void HappensBefore::find_order() {
  std::vector<uint64_t> count(program_.counters.size(), 0);
  struct Waiting {
    uint32_t threshold, queue;
  };
  const auto later = [](const Waiting& a, const Waiting& b) { return a.threshold > b.threshold; };
  std::vector<std::vector<Waiting>> waiting(program_.counters.size());  // heaps, lowest threshold first
  std::vector<uint32_t> next(program_.queue_begin.begin(), program_.queue_begin.end() - 1);
  std::vector<uint32_t> runnable;
  for (uint32_t q = program_.num_queues(); q-- > 0;) runnable.push_back(q);
  order_.reserve(program_.instructions.size());
  while (!runnable.empty()) {
    const uint32_t q = runnable.back();
    runnable.pop_back();
    for (; next[q] < program_.queue_begin[q + 1]; ++next[q]) {
      const Instruction& i = program_.instructions[next[q]];
      const auto waits = program_.waits_of(i);
      const auto unmet = std::find_if(waits.begin(), waits.end(),
                                      [&](const Wait& w) { return count[w.counter] < w.threshold; });
      if (unmet != waits.end()) {
        waiting[unmet->counter].push_back({unmet->threshold, q});
        std::ranges::push_heap(waiting[unmet->counter], later);
        break;
      }
      order_.push_back(next[q]);
      for (const Signal& s : program_.signals_of(i)) {
        count[s.counter] += s.increment;
        std::vector<Waiting>& heap = waiting[s.counter];
        for (; !heap.empty() && heap.front().threshold <= count[s.counter]; heap.pop_back()) {
          runnable.push_back(heap.front().queue);
          std::ranges::pop_heap(heap, later);
        }
      }
    }
  }
  if (order_.size() == program_.instructions.size()) return;
  for (uint32_t q = 0; q < program_.num_queues(); ++q) {
    if (next[q] == program_.queue_begin[q + 1]) continue;
    for (const Wait& w : program_.waits_of(program_.instructions[next[q]])) {
      if (count[w.counter] < w.threshold) {
        stuck_ = Stuck{next[q], w.counter, count[w.counter], w.threshold};
        return;
      }
    }
  }
}

void HappensBefore::find_events() {
  uint32_t bits = 0, levels = 0;
  for (uint32_t c = 0; c < program_.counters.size(); ++c) {
    events_begin_.push_back(static_cast<uint32_t>(events_.size()));
    std::vector<uint32_t> thresholds = partial_runs_.thresholds(c);
    const uint32_t all = program_.counters[c].increments_per_pass;
    const bool is_gate =
        c - program_.gate_counter < program_.num_devices;  // unsigned: false for counters before the gate
    if (is_gate && (thresholds.empty() || thresholds.back() != all)) thresholds.push_back(all);
    const bool in_bits = thresholds.size() <= kThresholdsInBits;
    for (uint32_t t = 0; t < thresholds.size(); ++t) {
      const EventMark mark = in_bits ? EventMark{bits++, 0} : EventMark{levels, t + 1};
      events_.push_back({thresholds[t], mark, 0, 0});
    }
    if (!in_bits) ++levels;
  }
  events_begin_.push_back(static_cast<uint32_t>(events_.size()));
  for (const Instruction& i : program_.instructions) {
    for (uint32_t w = i.wait_begin; w < i.wait_begin + i.wait_count; ++w) {
      const Wait& wait = program_.waits[w];
      if (wait.threshold != 0) wait_events_[w] = event_of(wait.counter, wait.threshold);
    }
  }
  for (uint32_t d = 0; d < program_.num_devices; ++d)
    gate_events_.push_back(events_begin_[program_.gate_of(d) + 1] - 1);
}

uint32_t HappensBefore::event_of(uint32_t counter, uint32_t threshold) const {
  const auto begin = events_.begin() + events_begin_[counter];
  const auto end = events_.begin() + events_begin_[counter + 1];
  const auto at = std::lower_bound(begin, end, threshold,
                                   [](const Event& e, uint32_t wanted) { return e.threshold < wanted; });
  return static_cast<uint32_t>(at - events_.begin());
}

void HappensBefore::find_signallers() {
  for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
    for (const Signal& s : program_.signals_of(program_.instructions[i])) {
      if (s.increment == 0) continue;
      std::vector<Signaller>& list = signallers_[s.counter];
      if (!list.empty() && list.back().instruction == i) {
        list.back().increment += s.increment;
      } else {
        list.push_back({i, s.increment, 0});
      }
    }
  }
}

// Instructions that wait for an event, directly or indirectly, cannot help to reach it; the increments of the
// others decide. If the lowest threshold needs all instructions, none of them waits for it.
void HappensBefore::find_first_thresholds(uint32_t counter) {
  const uint32_t begin = events_begin_[counter], end = events_begin_[counter + 1];
  std::vector<Signaller>& all = signallers_[counter];
  uint64_t possible = 0, least = UINT64_MAX;
  for (const Signaller& s : all) {
    possible += s.increment;
    least = std::min(least, s.increment);
  }
  if (possible - least < events_[begin].threshold) return;
  std::vector<uint32_t> thresholds;
  for (uint32_t e = begin; e < end; ++e) thresholds.push_back(events_[e].threshold);
  const std::vector<uint32_t> first = partial_runs_.first_thresholds(counter, thresholds);
  for (Signaller& s : all) s.first_threshold = first[s.instruction];
  std::stable_sort(all.begin(), all.end(), [](const Signaller& a, const Signaller& b) {
    return a.first_threshold < b.first_threshold;
  });
}

// An instruction precedes an event if all increments that are possible before the event, minus its own, stay
// below the threshold.
void HappensBefore::find_certain(uint32_t counter) {
  const uint32_t begin = events_begin_[counter], end = events_begin_[counter + 1];
  if (begin == end) return;
  find_first_thresholds(counter);
  const auto smaller = [](const Signaller& a, const Signaller& b) { return a.increment < b.increment; };
  std::priority_queue<Signaller, std::vector<Signaller>, decltype(smaller)> uncertain(smaller);
  auto next = signallers_[counter].begin();
  uint64_t possible = 0;
  for (uint32_t e = begin; e < end; ++e) {
    for (; next != signallers_[counter].end() && next->first_threshold <= e - begin; ++next) {
      possible += next->increment;
      uncertain.push(*next);
    }
    std::vector<uint32_t> certain;
    for (; !uncertain.empty() && possible - uncertain.top().increment < events_[e].threshold; uncertain.pop())
      certain.push_back(uncertain.top().instruction);
    add_certain(counter, e, std::move(certain));
  }
}

void HappensBefore::add_certain(uint32_t counter, uint32_t event, std::vector<uint32_t> instructions) {
  // Consecutive instructions mostly share a set, so this order needs few merges.
  std::sort(instructions.begin(), instructions.end());
  certain_[counter].insert(certain_[counter].end(), instructions.begin(), instructions.end());
  events_[event].certain_end = static_cast<uint32_t>(certain_[counter].size());
}

// Most instructions of a stage have equal lists; each list is stored once.
void HappensBefore::find_first_events() {
  const auto of_each = Lists<uint32_t>::filled(program_.instructions.size(), [&](const auto& add) {
    for (size_t c = 0; c < certain_.size(); ++c) {
      uint32_t next = 0;
      for (uint32_t e = events_begin_[c]; e < events_begin_[c + 1]; ++e) {
        for (; next < events_[e].certain_end; ++next) add(certain_[c][next], e);
      }
    }
  });
  first_events_.add({});
  std::vector<uint32_t> latest(events_.size(), 0);  // the last list that begins with the event
  for (size_t i = 0; i < of_each.size(); ++i) {
    const std::span<const uint32_t> events = of_each[i];
    if (events.empty()) continue;
    uint32_t& list = latest[events.front()];
    if (!std::ranges::equal(std::as_const(first_events_)[list], events)) {
      list = static_cast<uint32_t>(first_events_.size());
      first_events_.add(events);
    }
    first_events_of_[i] = list;
  }
}

// Builds the sets of the counter's events up to this one. known_ of all instructions that precede it must be
// set.
void HappensBefore::build_event_sets(uint32_t counter, uint32_t event) {
  const std::vector<uint32_t>& certain = certain_[counter];
  for (uint32_t& e = sets_end_[counter]; e <= event; ++e) {
    const bool lowest = e == events_begin_[counter];
    EventSet set = lowest ? EventSet() : sets_[events_[e - 1].set];
    set.set(events_[e].mark);
    uint32_t last = kNoEvent;
    for (uint32_t i = lowest ? 0 : events_[e - 1].certain_end; i < events_[e].certain_end; ++i) {
      if (std::exchange(last, known_[certain[i]]) == known_[certain[i]]) continue;
      set.merge(sets_[last]);
      ++merges_;
    }
    events_[e].set = static_cast<uint32_t>(sets_.size());
    sets_.push_back(std::move(set));
  }
}

// Returns the set of events before the instruction writes and signals. Instructions that wait for one event
// share its set, and consecutive instructions mostly wait for the same events.
uint32_t HappensBefore::known_before(uint32_t instruction) {
  const Instruction& record = program_.instructions[instruction];
  wait_sets_.clear();
  for (uint32_t w = record.wait_begin; w < record.wait_begin + record.wait_count; ++w) {
    if (wait_events_[w] == kNoEvent) continue;
    build_event_sets(program_.waits[w].counter, wait_events_[w]);
    wait_sets_.push_back(events_[wait_events_[w]].set);
  }
  if (wait_sets_.size() < 2) return wait_sets_.empty() ? 0 : wait_sets_.front();
  if (wait_sets_ == last_wait_sets_) return last_merged_;
  EventSet merged;
  for (const uint32_t set : wait_sets_) merged.merge(sets_[set]);
  merges_ += wait_sets_.size();
  std::swap(wait_sets_, last_wait_sets_);
  if (sets_.back() != merged) sets_.push_back(std::move(merged));
  return last_merged_ = static_cast<uint32_t>(sets_.size() - 1);
}

// A set has all events of a counter up to some threshold, so only the first event that `earlier` precedes is
// tested.
bool HappensBefore::implied(uint32_t earlier, const EventSet& events) const {
  const std::span<const uint32_t> first = first_events_[first_events_of_[earlier]];
  return std::any_of(first.begin(), first.end(), [&](uint32_t e) { return events.test(events_[e].mark); });
}

// Calls fn(event) for the events that guard the operand, until it returns true. Returns true if it did.
template <class Fn>
bool HappensBefore::any_guard(uint32_t instruction, uint8_t operand, Fn&& fn) const {
  const Instruction& record = program_.instructions[instruction];
  for (uint32_t w = record.wait_begin; w < record.wait_begin + record.wait_count; ++w) {
    const uint32_t event = wait_events_[w];
    const bool guards = (program_.waits[w].operand_mask >> operand & 1) != 0;
    if (guards && event != kNoEvent && fn(event)) return true;
  }
  return false;
}

bool HappensBefore::before(uint32_t earlier, uint32_t later, std::optional<uint8_t> operand) const {
  if (!operand) return implied(earlier, sets_[known_[later]]);
  return any_guard(later, *operand,
                   [&](uint32_t event) { return implied(earlier, sets_[events_[event].set]); });
}

void HappensBefore::guard_events(uint32_t instruction, uint8_t operand, std::vector<uint32_t>& out) const {
  out.clear();
  any_guard(instruction, operand, [&](uint32_t event) {
    out.push_back(event);
    return false;
  });
}

std::span<const uint32_t> HappensBefore::certain_before(uint32_t instruction, size_t wait) const {
  const size_t at = program_.instructions[instruction].wait_begin + wait;
  if (wait_events_[at] == kNoEvent) return {};
  return std::span(certain_[program_.waits[at].counter]).first(events_[wait_events_[at]].certain_end);
}

bool HappensBefore::before_gate(uint32_t instruction, uint32_t device) const {
  return implied(instruction, sets_[events_[gate_events_[device]].set]);
}

HappensBefore::Effort HappensBefore::effort() const {
  Effort out{.steps = partial_runs_.steps() + merges_, .bytes = 0};
  for (const EventSet& set : sets_) out.bytes += set.bytes();
  return out;
}

}  // namespace serval
