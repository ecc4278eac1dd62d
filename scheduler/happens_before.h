// What a program's counters guarantee: which instructions have finished before another may touch its
// operands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/bitset.h"
#include "vm/program.h"

namespace serval {

// Why a program cannot finish a pass.
struct Stuck {
  uint32_t instruction;  // index into Program::instructions
  uint32_t counter;
  uint64_t has, needs;
};

// Works on any program whose structure checks, however its counters are used. An event is "counter c has
// reached threshold t in this pass". An instruction is certain to precede an event if, without it, the
// counter stays below t: the increments of those that can run before the event, without its own, do not
// suffice.
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
  // Those whose signals to its counter a wait of `instruction`, by its index among them, cannot do without.
  std::span<const uint32_t> certain_before(uint32_t instruction, size_t wait) const;
  // Whether `instruction` has certainly signalled when the gate opens.
  bool before_gate(uint32_t instruction) const;

 private:
  struct Event {
    uint32_t counter;
    uint64_t threshold;
    std::vector<uint32_t> certain;  // instructions that precede it, by their signals to this counter
    Bitset closure;                 // events that precede it, itself included
  };

  void find_order();
  void find_signallers();
  uint32_t event_of(uint32_t counter, uint64_t threshold);
  void find_certain(Event& event);
  std::vector<bool> run_without(uint32_t counter, uint64_t threshold) const;
  void close(uint32_t event);
  bool implied(uint32_t earlier, const Bitset& events) const;

  const Program& program_;
  std::optional<Stuck> stuck_;
  std::vector<uint32_t> order_;
  struct Signaller {
    uint32_t instruction;
    uint64_t increment;
  };
  std::vector<std::vector<Signaller>> signallers_;  // of each counter
  std::vector<Event> events_;
  std::vector<std::vector<uint32_t>> events_of_counter_;
  std::vector<std::vector<uint32_t>> certain_in_;  // events that an instruction certainly precedes
  std::vector<std::vector<uint32_t>>
      wait_events_;              // of each instruction, parallel to its waits; kNoEvent if t is 0
  std::vector<uint32_t> known_;  // of each instruction: index of the set of events before its end
  std::vector<Bitset> sets_;
  uint32_t gate_event_ = 0;
};

}  // namespace serval
