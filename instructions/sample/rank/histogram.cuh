// Sums of weights by rank key: a radix search's histogram.
#pragma once

#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/rank/weight.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kBinBits = 11;
inline constexpr uint32_t kBins = 1U << kBinBits;

// In shared memory; all threads of the group add to it. Sums have two halves, because shared-memory atomics
// add 32 bits.
struct Histogram {
  uint32_t low[kBins];
  uint32_t high[kBins];

  // Each thread clears its part.
  __device__ __forceinline__ void clear(uint32_t thread) {
#pragma unroll 1
    for (uint32_t i = thread; i < kBins; i += kGroupThreads) low[i] = high[i] = 0;
  }
  // Additions are modulo 2^64, so subtraction works too, and in two steps, so that several can be in flight:
  // add_high() needs the result of add_low().
  __device__ __forceinline__ uint32_t add_low(uint32_t bin, uint64_t weight) {
    return weight != 0 ? atomicAdd(&low[bin], static_cast<uint32_t>(weight)) : 0;
  }
  __device__ __forceinline__ void add_high(uint32_t bin, uint64_t weight, uint32_t old_low) {
    const auto low_half = static_cast<uint32_t>(weight);
    const uint32_t carry = old_low + low_half < low_half ? 1 : 0;
    const uint32_t high_half = static_cast<uint32_t>(weight >> 32) + carry;
    if (high_half != 0) atomicAdd(&high[bin], high_half);
  }
  __device__ __forceinline__ uint64_t sum(uint32_t bin) const {
    return uint64_t{high[bin]} << 32 | low[bin];
  }
};

struct WeightInBin {
  uint32_t bin;
  uint64_t weight;
};

// Bin of a candidate in a range: bin i holds the rank keys from range.first - (i << bin_bits) down to the
// next bin's first. Candidates outside the range have weight 0.
struct Binning {
  const Kept& kept;
  Weight weight;
  RankRange range;
  uint32_t bin_bits;
  uint32_t vocab;

  __device__ __forceinline__ WeightInBin operator()(uint32_t token, float logit) const {
    const RankKey key = rank_of(logit, token);
    const bool inside = (token < vocab) & (key >= range.last) & (key <= range.first);
    const uint64_t whole = kept.weight_of(weight, token, logit);
    const auto bin = static_cast<uint32_t>((range.first - key) >> bin_bits);
    return {inside ? bin : 0, inside ? whole : 0};
  }
};

}  // namespace serval::device::sample
