// What an instruction costs, for placement, the simulator and roofline reports.
#pragma once

#include <cstdint>
#include <span>

#include "vm/stored_bytes.h"

namespace serval {

// A typical pass, since rows and contexts are known only at run time.
struct CostContext {
  uint32_t rows = 1;              // active rows
  uint32_t context_tokens = 128;  // tokens in the cache of each
};

// What an instruction's cost follows from: the pass, and the program's tensors as they are stored.
struct CostView {
  CostContext pass;
  std::span<const Tensor> tensors;

  uint64_t bytes(TensorId tensor, const Box& box) const { return stored_bytes(tensors[tensor.index], box); }
  uint32_t element_bytes(TensorId tensor) const { return size_of(tensors[tensor.index].dtype); }
};

struct Cost {
  uint64_t bytes = 0;       // from global memory: weights, KV and activations read
  uint64_t operations = 0;  // a multiply and an add count as two
};

// Units of a matrix of weights, and columns [first_col, first_col + num_cols) of them and of the rows that
// they are multiplied with.
struct Product {
  TensorId weights;
  uint64_t units = 0;
  TensorId input;
  uint32_t first_col = 0;
  uint32_t num_cols = 0;
};
inline Cost cost_of_product(const CostView& c, const Product& p) {
  const uint64_t begin = p.first_col, end = begin + p.num_cols, outputs = p.units * kUnitRows;
  return {
      .bytes = c.bytes(p.weights, {0, outputs, begin, end}) + c.bytes(p.input, {0, c.pass.rows, begin, end}),
      .operations = 2 * outputs * p.num_cols * c.pass.rows};
}

// Pages of shared memory an instruction must be able to hold at once to make progress: `pinned` from start to
// end, and at least `streaming` more that come and go.
struct PageNeed {
  uint32_t pinned = 0;
  uint32_t streaming = 0;
};

}  // namespace serval
