// The programs that are mutated and rewritten: Llama passes small enough for thousands of runs.
#pragma once

#include <vector>

#include "instructions/checked_isa.h"
#include "vm/host/random_order.h"
#include "vm/program.h"
#include "vm/state/view.h"

namespace serval::testing {

// Several SM counts, every policy and kind of queue, 2, 16 and 48 rows a pass, contexts of one leaf of
// attention and of several; programs of tiles, whose columns are cut into parts; and of one row in tile
// order.
const std::vector<Program>& small_programs();
// Programs of small models for 2, 4 and 8 ranks. Some multiply tiles of rows, and one of these has K splits
// of Q, K and V. The first program is for two ranks of two SMs.
const std::vector<Program>& shared_programs();

// States of consecutive passes within a program's limits: a few sequences, some with several rows.
class RandomPasses {
 public:
  RandomPasses(const Program& program, uint32_t passes, RandomOrder& random);
  const std::vector<StateView>& views() const { return views_; }

 private:
  using Rows = std::vector<PassRow>;  // [rows of the program]
  void begin(const StateLimits& limits, uint32_t passes, RandomOrder& random);
  static Rows following(const Rows& rows);
  // Plans attention if the program has planned attention.
  void plan(const Program& program);

  std::vector<Rows> rows_;
  std::vector<int32_t> block_table_;
  std::vector<std::vector<uint32_t>> attention_;  // one list for each pass; empty without planned attention
  std::vector<StateView> views_;
};

}  // namespace serval::testing
