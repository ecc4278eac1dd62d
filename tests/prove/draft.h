// A program in editable form for tests: every instruction with its own waits and signals.
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

  // Builds the side tables. Counters keep the increments that `rest` states, right or wrong.
  Program assemble() const;
  // Sets the counters' increments to the sums of their signals.
  void count_increments();
  // Like count_increments(), and keeps waits for all of a counter's increments equal to all of them.
  void count_increments_and_follow();
  std::vector<Step*> steps();

  Program rest;  // everything but instructions, queues, waits and signals
  std::vector<std::vector<Step>> queues;
};

}  // namespace serval::testing
