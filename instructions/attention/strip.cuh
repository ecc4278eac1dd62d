// The arithmetic of attention on one strip: 32 tokens of a leaf and a tile of 8 queries. A warp computes
//
//   scores[token, query]    = keys × queriesᵀ
//   weights[token, query]   = exp(score - the leaf's largest score)
//   output[channel, query]  = valuesᵀ × weights
//
// What a query gets depends on nothing but itself and the leaf: tokens that it does not see have weight 0,
// and adding zeros to a sum that began at +0 changes no bit. A leaf's sums are those of its strips added up:
// outputs first to last, sums of weights in pairs (total_of()).
#pragma once

#include "instructions/attention/items.cuh"
#include "vm/tiles/ptx_math.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kStripsOfBlock = kKvBlockTokens / kStripTokens;
// Keys and values come in parts of 64 channels.
inline constexpr uint32_t kPartChannels = 64;

using SharedPart = tiles::SharedTile<tiles::Bf16, kStripTokens, kPartChannels>;
using SharedQueries = tiles::SharedTile<tiles::Bf16, kTileQueries, kPartChannels>;
using QueryTile = tiles::RegisterTile<tiles::Bf16, kTileQueries, kPartChannels>;
using Scores = tiles::Accumulator<kStripTokens, kTileQueries>;
using WeightOperand = tiles::RegisterTile<tiles::Bf16, kStripTokens, kTileQueries, tiles::Layout::kCol>;
using Output = tiles::Accumulator<kPartChannels, kTileQueries>;
using PerQuery = tiles::ColumnVector<Scores>;
using QueryTokens = tiles::ColumnVector<Scores, uint32_t>;  // that a query sees, of the whole sequence

// Adds what 64 channels contribute.
__device__ __forceinline__ void add_scores(Scores& scores, const QueryTile& queries, const SharedPart& part,
                                           uint32_t lane) {
  tiles::RegisterTile<tiles::Bf16, kStripTokens, kPartChannels> keys;
  tiles::load_left(keys, part, lane);
  tiles::mma_abt(scores, keys, queries);
}

// Scores in units of ln 2, for exp2; -infinity where a query does not see a token. `first` is the strip's
// first token.
__device__ __forceinline__ void scale_and_mask(Scores& scores, const QueryTokens& visible, uint32_t first,
                                               float scale, uint32_t lane) {
  const auto scaled = [&](float score, uint32_t tokens, uint32_t row) {
    return first + row < tokens ? __fmul_rn(score, scale) : -INFINITY;
  };
  tiles::map_columns(scores, scores, visible, scaled, lane);
}
inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Turns scores into weights.
__device__ __forceinline__ void soften(Scores& scores, const PerQuery& largest) {
  tiles::map_columns(scores, scores, largest,
                     [](float score, float most, uint32_t) { return tiles::ptx::exp2(score - most); });
}
__device__ __forceinline__ void round(WeightOperand& operand, const Scores& weights) {
  tiles::RegisterTile<tiles::Bf16, kStripTokens, kTileQueries> rounded;
  tiles::convert(rounded, weights);
  tiles::swap_layout(operand, rounded);
}

__device__ __forceinline__ void weigh(Output& output, const WeightOperand& weights, const SharedPart& part,
                                      uint32_t lane) {
  tiles::RegisterTile<tiles::Bf16, kStripTokens, kPartChannels, tiles::Layout::kCol> values;
  tiles::load_left(values, part, lane);
  tiles::fill(output, 0);
  tiles::mma_atb(output, values, weights);
}

// Of the strips: pairs first, then fours, then all.
template <class Reduction>
__device__ __forceinline__ float total_of(const float (&strips)[kStrips]) {
  static_assert(kStrips == 8);
  return Reduction::of(
      Reduction::of(Reduction::of(strips[0], strips[1]), Reduction::of(strips[2], strips[3])),
      Reduction::of(Reduction::of(strips[4], strips[5]), Reduction::of(strips[6], strips[7])));
}

// Largest score and sum of weights follow a head's channels.
__device__ __forceinline__ void store_scalars(float* to, float largest, float sum) {
  *reinterpret_cast<float2*>(to) = {largest * kLn2, sum};
}

}  // namespace serval::device::attention
