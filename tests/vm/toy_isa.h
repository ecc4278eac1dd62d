// An instruction set of a few opcodes on an array of words, to test the machine alone: only the counters
// order the cells' plain loads and stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "vm/host/interpreter.h"
#include "vm/state/control.h"
#include "vm/state/names.h"
#include "vm/state/rows.h"

namespace serval::testing {

enum ToyOpcode : uint16_t {
  kToyAdd = 0,    // cell[out] = cell[in] + value
  kToyTrace = 1,  // cell[out + cell[in]++] = passes done, as read when it runs
  kToyThrow = 2,  // throws std::length_error if cell[in] != 0
  kToyEnd =
      3,  // ends the pass and counts it; it is the last if all wanted passes are done or the stop cell is set
  kToyOpen = 4,  // when it loads, sets cell[out] = value
  kToyHold = 5,  // when it loads, waits until cell[in] >= value
  kToyAsk = 6,   // loads when the caller has set cell[in] to passes done + 1; adds it to cell[out]
};

struct ToyOperands {
  uint32_t in = 0;
  uint32_t out = 0;
  uint32_t value = 0;
  uint32_t delay_us = 0;  // between load and store
};

inline constexpr uint32_t kToyCells = 1024;

const HostIsa& toy_isa();

// Builds programs queue by queue; sums the signals for the counters' increments.
class ToyBuilder {
 public:
  explicit ToyBuilder(uint32_t sms, QueueKind kind = QueueKind::kPerSm);
  uint32_t counter();
  void add(uint32_t queue, ToyOpcode opcode, const ToyOperands& operands, std::vector<Wait> waits,
           std::vector<Signal> signals);
  // `gate` is the counter that the pass's last instruction signals.
  Program build(uint32_t gate) const;

 private:
  struct Item {
    Instruction instruction;
    std::vector<Wait> waits;
    std::vector<Signal> signals;
  };
  uint32_t sms_;
  QueueKind kind_;
  uint32_t num_counters_ = 0;
  std::vector<std::vector<Item>> queues_;
};

// A program, its memory and an interpreter bound to both.
class ToyMachine {
 public:
  ToyMachine(Program program, uint32_t threads, double stall_timeout_s = 20);

  // Returns the number of passes run; `cells` and `control` contain their results.
  uint32_t run(uint32_t passes, const std::function<void(uint32_t)>& on_pass = {});
  uint32_t& cell(uint32_t index) { return cells[index]; }
  HostInterpreter& interpreter() { return interpreter_; }

  Program program;
  std::vector<uint32_t> cells = std::vector<uint32_t>(kToyCells, 0);
  PassControl control;
  uint32_t stop = 0;

 private:
  HostMemory bind();
  HostInterpreter interpreter_;
};

}  // namespace serval::testing
