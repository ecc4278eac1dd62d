// Partial sums that ranks exchange, in host memory (common/slices.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "instructions/common/host_op.h"
#include "instructions/common/pass_rows.h"
#include "instructions/common/slices.h"
#include "vm/base/bf16.h"
#include "vm/host/memory.h"

namespace serval {

// Pushes the instance's sums [rows, num_units × 8] to the owners of their columns.
template <class Op>
void push_partial_sums(const Op& op, const HostMemory& m, const std::vector<SelectedRow>& rows,
                       const std::vector<float>& sums) {
  const size_t first = first_col(op), cols = num_cols(op);
  for_slices(slices_of(op), first, first + cols, [&](const SlicePart& part) {
    const TensorId to = op.partial.on(part.owner);
    for (size_t r = 0; r < rows.size(); ++r) {
      const float* from = sums.data() + r * cols + (part.first_col - first);
      const size_t at = size_t{rows[r].index} * op.out_cols + part.partial_col;
      if (partial_sum_type(m.shape().order) == DType::kF32)
        std::copy(from, from + part.cols, m.data<float>(to) + at);
      else
        std::transform(from, from + part.cols, m.data<uint16_t>(to) + at, float_to_bf16);
    }
  });
}

// Appends elements [at, at + count) of `from` to `sums`.
inline void append_partial_sums(const HostMemory& m, TensorId from, size_t at, size_t count,
                                std::vector<float>& sums) {
  if (partial_sum_type(m.shape().order) == DType::kF32) {
    const float* begin = m.data<const float>(from) + at;
    sums.insert(sums.end(), begin, begin + count);
    return;
  }
  const uint16_t* begin = m.data<const uint16_t>(from) + at;
  std::transform(begin, begin + count, std::back_inserter(sums), bf16_to_float);
}

}  // namespace serval
