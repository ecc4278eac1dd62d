// Cost of an instruction, for placement, the simulator and roofline reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "vm/program_shape.h"
#include "vm/stored_bytes.h"

namespace serval {

// A typical pass: rows and contexts are known only at run time.
struct CostContext {
  uint32_t rows = 1;              // active rows
  uint32_t context_tokens = 128;  // tokens in the cache of each row
};

// Inputs of the cost: the pass, the program's shape, and its tensors as they are stored.
struct CostView {
  CostContext pass;
  const ProgramShape& shape;
  std::span<const Tensor> tensors;

  uint64_t bytes(TensorId tensor, const Box& box) const { return stored_bytes(tensors[tensor.index], box); }
  uint32_t element_bytes(TensorId tensor) const { return size_of(tensors[tensor.index].dtype); }
  // Number of the rows [first_row, first_row + num_rows) that the pass has.
  uint64_t rows(uint32_t first_row, uint32_t num_rows) const {
    return std::min(pass.rows - std::min(pass.rows, first_row), num_rows);
  }
};

struct Cost {
  uint64_t bytes = 0;         // from GPU memory: weights, KV
  uint64_t cached_bytes = 0;  // from a GPU's L2: the pass has just written or read them
  uint64_t operations = 0;    // a multiply and an add count as two
  uint64_t pushed_bytes = 0;  // to other devices; the SM computes nothing else meanwhile

  uint64_t all_bytes() const { return bytes + cached_bytes; }
};

// Pages of shared memory that an instruction must be able to hold at once to make progress: `pinned` from
// start to end, and at least `streaming` more that are replaced.
struct PageNeed {
  uint32_t pinned = 0;
  uint32_t streaming = 0;
};

}  // namespace serval
