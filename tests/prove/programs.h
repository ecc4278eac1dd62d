// The programs that are mutated and rewritten: Llama passes small enough for thousands of runs.
#pragma once

#include <vector>

#include "instructions/checked_isa.h"
#include "vm/host/random_order.h"
#include "vm/program.h"
#include "vm/state/view.h"

namespace serval::testing {

// Several SM counts, every policy and kind of queue, 2, 16 and 48 rows a pass, contexts of one leaf of
// attention and of several; and programs of tiles, whose columns are cut into parts.
const std::vector<Program>& small_programs();
// Programs of small models for 2, 4 and 8 ranks. Some multiply tiles of rows, and one of these cuts the
// columns of Q, K and V into parts. The first program is for two ranks of two SMs.
const std::vector<Program>& shared_programs();

// States of passes that follow each other, within a program's limits: a few sequences, several rows of some.
class RandomPasses {
 public:
  RandomPasses(const Program& program, uint32_t passes, RandomOrder& random);
  const std::vector<StateView>& views() const { return views_; }

 private:
  using Rows = std::vector<PassRow>;  // [rows of the program]
  void begin(const StateLimits& limits, uint32_t passes, RandomOrder& random);
  static Rows following(const Rows& rows);
  // The list of planned attention, of a program that has it.
  void plan(const Program& program);

  std::vector<Rows> rows_;
  std::vector<int32_t> block_table_;
  std::vector<std::vector<uint32_t>> attention_;  // lists, one a pass; none without planned attention
  std::vector<StateView> views_;
};

}  // namespace serval::testing
