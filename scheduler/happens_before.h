// Derives from a program's counters which instructions have certainly finished before another may touch its
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
  uint64_t has, needs;  // the counter's final value; the threshold
};

// Works on any program that check_structure() accepts, however it uses its counters. An event is "counter c
// has reached threshold t in this pass", for each t that some wait names. An instruction certainly precedes
// an event if the counter cannot reach t, or a lower threshold, without it: the increments of the other
// instructions that can run before the event do not suffice.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program);

  // Set if some instruction can never start, given the order of its queue. Then do not call the functions
  // below.
  const std::optional<Stuck>& stuck() const { return stuck_; }
  // All instructions, in an order in which they can run.
  std::span<const uint32_t> order() const { return order_; }

  // True if `earlier` has certainly signalled before `later` reads its operand or, without an operand, before
  // `later` writes and signals, which it does after all of its waits.
  bool before(uint32_t earlier, uint32_t later, std::optional<uint8_t> operand) const;
  // Number of the set of events before an instruction writes and signals. Instructions with equal numbers
  // write and signal after the same instructions.
  uint32_t event_set_of(uint32_t instruction) const { return known_[instruction]; }
  // Number of the list of the first events that an instruction precedes. Instructions with equal numbers
  // precede the same instructions.
  uint32_t first_events_of(uint32_t instruction) const { return first_events_of_[instruction]; }
  // Sets `out` to the events that the waits guarding the operand wait for. Instructions with equal events
  // come after the same instructions.
  void guard_events(uint32_t instruction, uint8_t operand, std::vector<uint32_t>& out) const;
  // Instructions without whose signals the counter of a wait cannot reach its threshold; `wait` counts the
  // waits of `instruction`. With two waits for one counter, the lower one's list is the beginning of the
  // higher one's.
  std::span<const uint32_t> certain_before(uint32_t instruction, size_t wait) const;
  // True if `instruction` has certainly signalled when the gate of the device opens.
  bool before_gate(uint32_t instruction, uint32_t device) const;

  // Work and memory that the analysis took.
  struct Effort {
    // Instructions run, plus sets merged. All instructions run once for each counter with a threshold below
    // its sum.
    uint64_t steps;
    uint64_t bytes;  // of all sets of events
  };
  Effort effort() const;

 private:
  struct Event {
    uint32_t threshold;
    EventMark mark;
    uint32_t certain_end;  // the counter's `certain_` up to here precede the event
    uint32_t set;          // number of the set of events that precede this one, itself included
  };
  struct Signaller {
    uint32_t instruction;
    uint64_t increment;
    uint32_t first_threshold;  // number of the counter's first event before which it can run
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
  std::vector<Event> events_;                       // sorted by counter, then by threshold
  std::vector<uint32_t> events_begin_;              // of each counter, and the end
  std::vector<uint32_t> wait_events_;               // parallel to Program::waits; kNoEvent if t is 0
  std::vector<uint32_t> gate_events_;               // of each device
  std::vector<std::vector<Signaller>> signallers_;  // of each counter
  std::vector<std::vector<uint32_t>> certain_;      // of each counter, by the first event that they precede
  // Lists of the first event that an instruction precedes on each counter, ascending; and the number of each
  // instruction's list.
  Lists<uint32_t> first_events_;
  std::vector<uint32_t> first_events_of_;
  std::vector<uint32_t> sets_end_;  // of each counter: end of the events whose sets are built
  std::vector<EventSet> sets_;
  std::vector<uint32_t> known_;      // of each instruction: event_set_of()
  std::vector<uint32_t> wait_sets_;  // sets of the events that an instruction waits for
  // The sets merged last, and the result.
  std::vector<uint32_t> last_wait_sets_;
  uint32_t last_merged_ = 0;
  uint64_t merges_ = 0;
};

}  // namespace serval
