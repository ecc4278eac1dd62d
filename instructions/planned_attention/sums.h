// Attention's sums for a query and their order, as the host computes them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace serval {

// Scores are in units of ln 2.
inline constexpr float kLog2OfE = 1.44269504F;

// Sums over some keys of one query. The caller keeps `o`, the head_dim output sums.
struct AttentionSums {
  float largest = -std::numeric_limits<float>::infinity();  // score × scale
  float total = 0;
};

// Merges the next leaf into `to`.
inline void merge(AttentionSums& to, float* to_o, const AttentionSums& leaf, const float* leaf_o,
                  size_t head_dim) {
  const float largest = std::fmax(to.largest, leaf.largest);
  const float a = std::exp2(to.largest - largest), b = std::exp2(leaf.largest - largest);
  to.largest = largest;
  to.total = std::fma(leaf.total, b, to.total * a);
  for (size_t d = 0; d < head_dim; ++d) to_o[d] = std::fma(leaf_o[d], b, to_o[d] * a);
}

}  // namespace serval
