// What a program's counters guarantee: which instructions have finished before another may touch its
// operands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/event_set.h"
#include "scheduler/lists.h"
#include "scheduler/partial_runs.h"
#include "vm/program.h"

namespace serval {

// Why a program cannot finish a pass.
struct Stuck {
  uint32_t instruction;  // index into Program::instructions
  uint32_t counter;
  uint64_t has, needs;
};

// Works on any program whose structure checks, however its counters are used. An event is "counter c has
// reached threshold t in this pass", for a t that some wait names. An instruction is certain to precede an
// event if, without it, the counter stays below t or below a lower threshold, which is reached before: the
// increments of those that can run before the event, without its own, do not suffice.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program);

  // Set if some instruction can never start under the order of its queue; then nothing below may be asked.
  const std::optional<Stuck>& stuck() const { return stuck_; }
  // All instructions in an order in which they can run.
  std::span<const uint32_t> order() const { return order_; }

  // Whether `earlier` has certainly signalled before `later` touches its operand (one it reads), or, without
  // an operand, before `later` writes or signals, which it does when all of its waits are over.
  bool before(uint32_t earlier, uint32_t later, std::optional<uint8_t> operand) const;
  // Instructions with equal numbers write and signal after the same instructions.
  uint32_t event_set_of(uint32_t instruction) const { return known_[instruction]; }
  // Instructions with equal numbers are before the same.
  uint32_t first_events_of(uint32_t instruction) const { return first_events_of_[instruction]; }
  // What the waits that guard the operand wait for. Instructions that wait for the same come after the same.
  void guard_events(uint32_t instruction, uint8_t operand, std::vector<uint32_t>& out) const;
  // Those whose signals to its counter a wait of `instruction`, by its index among them, cannot do without.
  // Of two waits for a counter, the lower one's are the first of the higher one's.
  std::span<const uint32_t> certain_before(uint32_t instruction, size_t wait) const;
  // Whether `instruction` has certainly signalled when the gate of a device opens.
  bool before_gate(uint32_t instruction, uint32_t device) const;

  // What the answers took.
  struct Effort {
    uint64_t steps;  // instructions run, once for each counter with a threshold below its sum; sets merged
    uint64_t bytes;  // of sets of events
  };
  Effort effort() const;

 private:
  struct Event {
    uint32_t threshold;
    EventMark mark;
    uint32_t certain_end;  // the counter's `certain_` up to here precede it
    uint32_t set;          // of events that precede it, itself included
  };
  struct Signaller {
    uint32_t instruction;
    uint64_t increment;
    uint32_t first_threshold;  // it can run before this event of the counter and those that follow
  };

  void find_order();
  void find_events();
  void find_signallers();
  void find_certain(uint32_t counter);
  void find_first_thresholds(uint32_t counter);
  void add_certain(uint32_t counter, uint32_t event, std::vector<uint32_t> instructions);
  void find_first_events();
  uint32_t event_of(uint32_t counter, uint32_t threshold) const;
  void build_event_sets(uint32_t counter, uint32_t event);
  uint32_t known_before(uint32_t instruction);
  bool implied(uint32_t earlier, const EventSet& events) const;
  template <class Fn>
  bool any_guard(uint32_t instruction, uint8_t operand, Fn&& fn) const;

  const Program& program_;
  PartialRuns partial_runs_;
  std::optional<Stuck> stuck_;
  std::vector<uint32_t> order_;
  std::vector<Event> events_;                       // counter after counter, each by threshold
  std::vector<uint32_t> events_begin_;              // of each counter, and the end
  std::vector<uint32_t> wait_events_;               // parallel to Program::waits; kNoEvent if t is 0
  std::vector<uint32_t> gate_events_;               // of each device
  std::vector<std::vector<Signaller>> signallers_;  // of each counter
  std::vector<std::vector<uint32_t>> certain_;      // of each counter, by the first event that they precede
  // That event for each counter of an instruction, ascending; and which of these lists each instruction has.
  Lists<uint32_t> first_events_;
  std::vector<uint32_t> first_events_of_;
  std::vector<uint32_t> sets_end_;  // of each counter: the end of the events that have their sets
  std::vector<EventSet> sets_;
  std::vector<uint32_t> known_;       // of each instruction: the set of events before its end
  std::vector<uint32_t> wait_sets_;  // sets of events
  // What was merged last, and the set that has them all.
  std::vector<uint32_t> last_wait_sets_;
  uint32_t last_merged_ = 0;
  uint64_t merges_ = 0;
};

}  // namespace serval
