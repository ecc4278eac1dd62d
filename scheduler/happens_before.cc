#include "scheduler/happens_before.h"

#include <algorithm>

namespace serval {
namespace {

constexpr uint32_t kNoEvent = 0xffffffff;

}  // namespace

HappensBefore::HappensBefore(const Program& program)
    : program_(program),
      signallers_(program.counters.size()),
      events_of_counter_(program.counters.size()),
      certain_in_(program.instructions.size()),
      wait_events_(program.instructions.size()),
      known_(program.instructions.size(), 0) {
  find_order();
  if (stuck_) return;
  find_signallers();
  for (const uint32_t i : order_) {
    Bitset known;
    for (const Wait& w : program.waits_of(program.instructions[i])) {
      const uint32_t event = w.threshold == 0 ? kNoEvent : event_of(w.counter, w.threshold);
      wait_events_[i].push_back(event);
      if (event != kNoEvent) known.merge(events_[event].closure);
    }
    // Neighbours in this order mostly wait for the same; they share a set.
    if (sets_.empty() || !(sets_.back() == known)) sets_.push_back(std::move(known));
    known_[i] = static_cast<uint32_t>(sets_.size() - 1);
  }
  gate_event_ = event_of(program.gate_counter, program.counters[program.gate_counter].increments_per_pass);
}

// Runs one pass with every queue in order. Counters only grow, so whatever can run now can run later: if this
// order gets stuck, every order does. A global queue is popped first in, first out, by one SM at worst.
void HappensBefore::find_order() {
  std::vector<uint64_t> count(program_.counters.size(), 0);
  std::vector<std::vector<uint32_t>> waiting(program_.counters.size());  // queues
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
        waiting[unmet->counter].push_back(q);
        break;
      }
      order_.push_back(next[q]);
      for (const Signal& s : program_.signals_of(i)) {
        count[s.counter] += s.increment;
        runnable.insert(runnable.end(), waiting[s.counter].begin(), waiting[s.counter].end());
        waiting[s.counter].clear();
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

void HappensBefore::find_signallers() {
  for (uint32_t i = 0; i < program_.instructions.size(); ++i) {
    for (const Signal& s : program_.signals_of(program_.instructions[i])) {
      std::vector<Signaller>& list = signallers_[s.counter];
      if (!list.empty() && list.back().instruction == i) {
        list.back().increment += s.increment;
      } else {
        list.push_back({i, s.increment});
      }
    }
  }
}

uint32_t HappensBefore::event_of(uint32_t counter, uint64_t threshold) {
  for (const uint32_t e : events_of_counter_[counter]) {
    if (events_[e].threshold == threshold) return e;
  }
  const auto event = static_cast<uint32_t>(events_.size());
  events_.push_back({counter, threshold, {}, {}});
  events_of_counter_[counter].push_back(event);
  find_certain(events_[event]);
  for (const uint32_t i : events_[event].certain) certain_in_[i].push_back(event);
  close(event);
  return event;
}

void HappensBefore::find_certain(Event& event) {
  const std::vector<Signaller>& all = signallers_[event.counter];
  uint64_t possible = 0, least = UINT64_MAX;
  for (const Signaller& s : all) {
    possible += s.increment;
    least = std::min(least, s.increment);
  }
  std::vector<bool> can_run;
  if (possible - least >= event.threshold) {
    // Not everybody is needed. Those who themselves wait for the event, however indirectly, cannot help to
    // bring it about; what the others add up to decides.
    can_run = run_without(event.counter, event.threshold);
    possible = 0;
    for (const Signaller& s : all) possible += can_run[s.instruction] ? s.increment : 0;
  }
  for (const Signaller& s : all) {
    const bool helps = can_run.empty() || can_run[s.instruction];
    if (helps && s.increment > 0 && possible - s.increment < event.threshold)
      event.certain.push_back(s.instruction);
  }
}

// Which instructions can ever run if no wait for `counter` to reach `threshold` or more is satisfied. The
// order of queues is no help here: instructions of one SM overlap.
std::vector<bool> HappensBefore::run_without(uint32_t counter, uint64_t threshold) const {
  std::vector<uint64_t> count(program_.counters.size(), 0);
  std::vector<std::vector<uint32_t>> waiting(program_.counters.size());
  std::vector<bool> done(program_.instructions.size(), false);
  std::vector<uint32_t> runnable(order_.rbegin(), order_.rend());
  while (!runnable.empty()) {
    const uint32_t i = runnable.back();
    runnable.pop_back();
    const auto waits = program_.waits_of(program_.instructions[i]);
    const auto unmet = std::find_if(waits.begin(), waits.end(), [&](const Wait& w) {
      return count[w.counter] < w.threshold || (w.counter == counter && w.threshold >= threshold);
    });
    if (unmet != waits.end()) {
      waiting[unmet->counter].push_back(i);
      continue;
    }
    done[i] = true;
    for (const Signal& s : program_.signals_of(program_.instructions[i])) {
      count[s.counter] += s.increment;
      runnable.insert(runnable.end(), waiting[s.counter].begin(), waiting[s.counter].end());
      waiting[s.counter].clear();
    }
  }
  return done;
}

void HappensBefore::close(uint32_t event) {
  Bitset closure;
  closure.set(event);
  uint32_t last = kNoEvent;
  for (const uint32_t i : events_[event].certain) {
    if (known_[i] == last) continue;
    last = known_[i];
    closure.merge(sets_[last]);
  }
  events_[event].closure = std::move(closure);
}

bool HappensBefore::implied(uint32_t earlier, const Bitset& events) const {
  const std::vector<uint32_t>& in = certain_in_[earlier];
  return std::any_of(in.begin(), in.end(), [&](uint32_t e) { return events.test(e); });
}

bool HappensBefore::before(uint32_t earlier, uint32_t later, std::optional<uint8_t> operand) const {
  if (!operand) return implied(earlier, sets_[known_[later]]);
  const auto waits = program_.waits_of(program_.instructions[later]);
  for (size_t w = 0; w < waits.size(); ++w) {
    const uint32_t event = wait_events_[later][w];
    const bool guards = (waits[w].operand_mask >> *operand & 1) != 0;
    if (guards && event != kNoEvent && implied(earlier, events_[event].closure)) return true;
  }
  return false;
}

std::span<const uint32_t> HappensBefore::certain_before(uint32_t instruction, size_t wait) const {
  const uint32_t event = wait_events_[instruction][wait];
  return event == kNoEvent ? std::span<const uint32_t>() : events_[event].certain;
}

bool HappensBefore::before_gate(uint32_t instruction) const {
  return implied(instruction, events_[gate_event_].closure);
}

}  // namespace serval
