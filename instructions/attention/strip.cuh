// The arithmetic of attention on one strip: 32 tokens of a leaf and a tile of 8 or 16 queries. A warp
// computes
//
//   scores[query, token]    = queries × keysᵀ
//   weights[query, token]   = exp(score - the leaf's largest score)
//   output[query, channel]  = weights × values
//
// A query's result depends only on the query and the leaf: tokens that it does not see have weight 0, and
// adding zeros to a sum that began at +0 changes no bit. A leaf's results are the sums over its strips:
// outputs from first to last in each half of the leaf and then the halves; sums of weights as a tree of
// pairs.
#pragma once

#include "instructions/attention/items.cuh"
#include "vm/ptx/math.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kStripsOfBlock = kKvBlockTokens / kStripTokens;
// Keys and values come in KV tiles of 64 channels.
inline constexpr uint32_t kKvTileChannels = 64;
// Queries come in fragments of 8: a lane holds a part of one of them.
inline constexpr uint32_t kFragmentQueries = tiles::kQuadrant;

using SharedKvTile = tiles::SharedTile<tiles::Bf16, kStripTokens, kKvTileChannels, tiles::TermSwizzle>;
// Loaded by load_terms().
using Queries8 = tiles::RegisterTile<tiles::Bf16, kFragmentQueries, kKvTileChannels>;
using Keys = tiles::RegisterTile<tiles::Bf16, kStripTokens, kKvTileChannels>;
using Scores = tiles::Accumulator<kFragmentQueries, kStripTokens>;
using Weights = tiles::RegisterTile<tiles::Bf16, kFragmentQueries, kStripTokens>;
using Output = tiles::Accumulator<kFragmentQueries, kKvTileChannels>;
using PerQuery = tiles::RowVector<Scores>;
using QueryTokens = tiles::RowVector<Scores, uint32_t>;  // tokens of the whole sequence that a query sees

// In shared memory: outputs that a warp publishes to others …
using WarpOutput = tiles::SharedTile<float, kFragmentQueries, kKvTileChannels>;
// … and a KV tile of a strip, or outputs.
union KvBuffer {
  SharedKvTile tile;
  WarpOutput outputs[2];
};
static_assert(sizeof(KvBuffer) == sizeof(SharedKvTile));

// Calls multiply(d, a) on tiles of 16 rows, as the tensor cores need: two fragments, or one padded with
// zeros.
template <class D, class A, uint32_t kQueryFragments, class Multiply>
__device__ __forceinline__ void with_16_rows(D (&d)[kQueryFragments], const A (&a)[kQueryFragments],
                                             Multiply&& multiply) {
  static_assert(kQueryFragments == 1 || kQueryFragments == 2);
  tiles::Accumulator<2 * kFragmentQueries, D::kCols> wide_d;
  tiles::RegisterTile<typename A::ElementType, 2 * kFragmentQueries, A::kCols> wide_a;
#pragma unroll
  for (uint32_t r = 0; r < 2; ++r) {
#pragma unroll
    for (int c = 0; c < D::kQuadrantCols; ++c)
      wide_d.quadrant[r][c] = r < kQueryFragments ? d[r % kQueryFragments].quadrant[0][c] : float2{0, 0};
#pragma unroll
    for (int c = 0; c < A::kQuadrantCols; ++c)
      wide_a.quadrant[r][c] = r < kQueryFragments ? a[r % kQueryFragments].quadrant[0][c] : 0;
  }
  multiply(wide_d, wide_a);
#pragma unroll
  for (uint32_t r = 0; r < kQueryFragments; ++r) {
#pragma unroll
    for (int c = 0; c < D::kQuadrantCols; ++c) d[r].quadrant[0][c] = wide_d.quadrant[r][c];
  }
}

// Adds the contribution of 64 channels.
template <uint32_t kQueryFragments>
__device__ __forceinline__ void add_scores(Scores (&scores)[kQueryFragments],
                                           const Queries8 (&queries)[kQueryFragments], const Keys& keys) {
  with_16_rows(scores, queries, [&](auto& d, const auto& a) { tiles::mma_abt(d, a, keys); });
}

// Multiplies scores by `scale`, which includes log2(e) for exp2, and sets those of tokens that a query does
// not see to -infinity. `first` is the strip's first token.
__device__ __forceinline__ void scale_and_mask(Scores& scores, const QueryTokens& visible, uint32_t first,
                                               float scale, uint32_t lane) {
  const auto scaled = [&](float score, uint32_t tokens, uint32_t col) {
    return first + col < tokens ? __fmul_rn(score, scale) : -INFINITY;
  };
  tiles::map_rows(scores, scores, visible, scaled, lane);
}
inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Turns scores into weights.
__device__ __forceinline__ void softmax(Scores& scores, const PerQuery& largest) {
  tiles::map_rows(scores, scores, largest,
                  [](float score, float most, uint32_t) { return ptx::exp2(score - most); });
}

// Adds a strip's output, 16 channels at a time, which takes few registers.
template <uint32_t kQueryFragments>
__device__ __forceinline__ void add_output(Output (&total)[kQueryFragments],
                                           const Weights (&weights)[kQueryFragments],
                                           const SharedKvTile& tile, uint32_t lane) {
  constexpr int kChannels = tiles::kBaseTile;
#pragma unroll
  for (int first = 0; first < static_cast<int>(kKvTileChannels); first += kChannels) {
    tiles::RegisterTile<tiles::Bf16, kStripTokens, kChannels, tiles::Layout::kCol> values;
    tiles::load_right_columns(values, tile, first, lane);
    tiles::Accumulator<kFragmentQueries, kChannels> output[kQueryFragments];
#pragma unroll
    for (auto& o : output) tiles::fill(o, 0);
    with_16_rows(output, weights, [&](auto& d, const auto& a) { tiles::mma_ab(d, a, values); });
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) tiles::add_columns(total[e], output[e], first);
  }
}

// Reduces as a tree of pairs, neighbours first.
template <class Reduction, uint32_t kCount>
__device__ __forceinline__ float total_in_pairs(const float (&values)[kCount]) {
  static_assert((kCount & (kCount - 1)) == 0);
  float sums[kCount];
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) sums[i] = values[i];
#pragma unroll
  for (uint32_t distance = 1; distance < kCount; distance *= 2) {
#pragma unroll
    for (uint32_t i = 0; i < kCount; i += 2 * distance) sums[i] = Reduction::of(sums[i], sums[i + distance]);
  }
  return sums[0];
}

}  // namespace serval::device::attention
