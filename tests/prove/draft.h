// A program taken apart, so that tests can change it: every instruction with its own waits and signals.
#pragma once

#include <vector>

#include "vm/program.h"

namespace serval::testing {

struct Step {
  Instruction record;
  std::vector<Wait> waits;
  std::vector<Signal> signals;
};

struct Draft {
  explicit Draft(const Program& program);

  // Lays down the side tables again. Counters keep the increments that `rest` states, right or wrong.
  Program assemble() const;
  // States what the signals add up to.
  void count_increments();
  // The same, and a wait for all of a counter's increments stays one.
  void count_increments_and_follow();
  std::vector<Step*> steps();

  Program rest;  // everything but instructions, queues, waits and signals
  std::vector<std::vector<Step>> queues;
};

}  // namespace serval::testing
