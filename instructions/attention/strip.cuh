// The arithmetic of attention on one strip: 32 tokens of a leaf and a tile of 8 or 16 queries. A warp
// computes
//
//   scores[query, token]    = queries × keysᵀ
//   weights[query, token]   = exp(score - the leaf's largest score)
//   output[query, channel]  = weights × values
//
// What a query gets depends on nothing but itself and the leaf: tokens that it does not see have weight 0,
// and adding zeros to a sum that began at +0 changes no bit. A leaf's sums are those of its strips added up:
// outputs first to last in each half of the leaf and then the halves, sums of weights in pairs.
#pragma once

#include "instructions/attention/items.cuh"
#include "vm/ptx/math.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kStripsOfBlock = kKvBlockTokens / kStripTokens;
// Keys and values come in parts of 64 channels.
inline constexpr uint32_t kPartChannels = 64;
// Queries come by eights: a lane holds a part of one of them.
inline constexpr uint32_t kEight = tiles::kQuadrant;

using SharedPart = tiles::SharedTile<tiles::Bf16, kStripTokens, kPartChannels, tiles::TermSwizzle>;
// Loaded as terms.
using Queries8 = tiles::RegisterTile<tiles::Bf16, kEight, kPartChannels>;
using Keys = tiles::RegisterTile<tiles::Bf16, kStripTokens, kPartChannels>;
using Scores = tiles::Accumulator<kEight, kStripTokens>;
using Weights = tiles::RegisterTile<tiles::Bf16, kEight, kStripTokens>;
using Output = tiles::Accumulator<kEight, kPartChannels>;
using PerQuery = tiles::RowVector<Scores>;
using QueryTokens = tiles::RowVector<Scores, uint32_t>;  // that a query sees, of the whole sequence

// In shared memory: what a warp hands to others of its outputs …
using WarpOutput = tiles::SharedTile<float, kEight, kPartChannels>;
// … and a part of a strip, or outputs.
union Place {
  SharedPart part;
  WarpOutput outputs[2];
};
static_assert(sizeof(Place) == sizeof(SharedPart));

// Calls multiply(d, a) on tiles of 16 rows, which is what the tensor cores take: two eights, or one and
// nothing.
template <class D, class A, uint32_t kEights, class Multiply>
__device__ __forceinline__ void with_16_rows(D (&d)[kEights], const A (&a)[kEights], Multiply&& multiply) {
  static_assert(kEights == 1 || kEights == 2);
  tiles::Accumulator<2 * kEight, D::kCols> wide_d;
  tiles::RegisterTile<typename A::ElementType, 2 * kEight, A::kCols> wide_a;
#pragma unroll
  for (uint32_t r = 0; r < 2; ++r) {
#pragma unroll
    for (int c = 0; c < D::kQuadrantCols; ++c)
      wide_d.quadrant[r][c] = r < kEights ? d[r % kEights].quadrant[0][c] : float2{0, 0};
#pragma unroll
    for (int c = 0; c < A::kQuadrantCols; ++c)
      wide_a.quadrant[r][c] = r < kEights ? a[r % kEights].quadrant[0][c] : 0;
  }
  multiply(wide_d, wide_a);
#pragma unroll
  for (uint32_t r = 0; r < kEights; ++r) {
#pragma unroll
    for (int c = 0; c < D::kQuadrantCols; ++c) d[r].quadrant[0][c] = wide_d.quadrant[r][c];
  }
}

// Adds what 64 channels contribute.
template <uint32_t kEights>
__device__ __forceinline__ void add_scores(Scores (&scores)[kEights], const Queries8 (&queries)[kEights],
                                           const Keys& keys) {
  with_16_rows(scores, queries, [&](auto& d, const auto& a) { tiles::mma_abt(d, a, keys); });
}

// Scores in units of ln 2, for exp2; -infinity where a query does not see a token. `first` is the strip's
// first token.
__device__ __forceinline__ void scale_and_mask(Scores& scores, const QueryTokens& visible, uint32_t first,
                                               float scale, uint32_t lane) {
  const auto scaled = [&](float score, uint32_t tokens, uint32_t col) {
    return first + col < tokens ? __fmul_rn(score, scale) : -INFINITY;
  };
  tiles::map_rows(scores, scores, visible, scaled, lane);
}
inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Turns scores into weights.
__device__ __forceinline__ void soften(Scores& scores, const PerQuery& largest) {
  tiles::map_rows(scores, scores, largest,
                  [](float score, float most, uint32_t) { return ptx::exp2(score - most); });
}

// Adds a strip's output: of 16 channels at a time, which takes few registers.
template <uint32_t kEights>
__device__ __forceinline__ void add_output(Output (&total)[kEights], const Weights (&weights)[kEights],
                                           const SharedPart& part, uint32_t lane) {
  constexpr int kChannels = tiles::kBaseTile;
#pragma unroll
  for (int first = 0; first < static_cast<int>(kPartChannels); first += kChannels) {
    tiles::RegisterTile<tiles::Bf16, kStripTokens, kChannels, tiles::Layout::kCol> values;
    tiles::load_right_columns(values, part, first, lane);
    tiles::Accumulator<kEight, kChannels> output[kEights];
#pragma unroll
    for (auto& o : output) tiles::fill(o, 0);
    with_16_rows(output, weights, [&](auto& d, const auto& a) { tiles::mma_ab(d, a, values); });
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) tiles::add_columns(total[e], output[e], first);
  }
}

// Neighbours first.
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
