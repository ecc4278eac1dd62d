// Partial sums that ranks exchange, in host memory (common/slices.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "instructions/common/slices.h"
#include "vm/base/bf16.h"
#include "vm/host/memory.h"

namespace serval {

// Stores `count` sums as elements [at, at + count) of `to`, in the type that `square_cols` says.
inline void store_partial_sums(const HostMemory& m, TensorId to, uint32_t square_cols, size_t at,
                               const float* sums, size_t count) {
  if (partial_sum_type(square_cols) == DType::kF32)
    std::copy(sums, sums + count, m.data<float>(to) + at);
  else
    std::transform(sums, sums + count, m.data<uint16_t>(to) + at, float_to_bf16);
}

// Appends elements [at, at + count) of `from` to `sums`.
inline void append_partial_sums(const HostMemory& m, TensorId from, uint32_t square_cols, size_t at,
                                size_t count, std::vector<float>& sums) {
  if (partial_sum_type(square_cols) == DType::kF32) {
    const float* begin = m.data<const float>(from) + at;
    sums.insert(sums.end(), begin, begin + count);
    return;
  }
  const uint16_t* begin = m.data<const uint16_t>(from) + at;
  std::transform(begin, begin + count, std::back_inserter(sums), bf16_to_float);
}

}  // namespace serval
