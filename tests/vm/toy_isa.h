// An instruction set of a few opcodes over an array of words, so that the machine can be tested on its own:
// the counters are the only thing that orders the cells' plain loads and stores.
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
  kToyTrace = 1,  // cell[out + cell[in]++] = passes done, as read at that moment
  kToyThrow = 2,  // throws std::length_error if cell[in] != 0
  kToyEnd = 3,    // ends the pass: counts it; the last is that wanted, or one in which the stop cell is set
  kToyOpen = 4,   // as it loads, cell[out] = value
  kToyHold = 5,   // as it loads, returns no sooner than cell[in] >= value
  kToyAsk = 6,    // loads when the caller has set cell[in] to passes done + 1; adds it to cell[out]
};

struct ToyOperands {
  uint32_t in = 0;
  uint32_t out = 0;
  uint32_t value = 0;
  uint32_t delay_us = 0;  // between load and store
};

inline constexpr uint32_t kToyCells = 1024;

const HostIsa& toy_isa();

// Builds programs queue by queue: counters' increments are summed up from the signals.
class ToyBuilder {
 public:
  explicit ToyBuilder(uint32_t sms, QueueKind kind = QueueKind::kPerSm);
  uint32_t counter();
  void add(uint32_t queue, ToyOpcode opcode, const ToyOperands& operands, std::vector<Wait> waits,
           std::vector<Signal> signals);
  // `gate` is what the pass's last instruction signals.
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

  // The passes run; `cells` and `control` are what they left.
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
