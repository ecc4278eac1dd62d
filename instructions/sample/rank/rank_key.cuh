// The order of candidates: by logit, descending, then by token, ascending. A candidate's rank key is one
// integer, so that ranges, bins and sorting need not compare two fields.
#pragma once

#include <cmath>
#include <cstdint>

namespace serval::device::sample {

inline constexpr float kMinusInfinity = -INFINITY;

// NaN counts as -infinity.
__device__ __forceinline__ float clean(float logit) {
  return fmaxf(logit, kMinusInfinity);
}

// Distance of a logit below the largest; 0 for equal ones, also for infinite ones.
__device__ __forceinline__ float shortfall(float logit, float largest) {
  return logit == largest ? 0.0F : logit - largest;
}

// The logit's key in the high bits, and the token in descending order in the low bits: earlier candidates
// have larger keys. 0 is no token's key.
using RankKey = uint64_t;

inline constexpr uint32_t kTokenBits = 24;  // limit of the vocabulary in check()
inline constexpr uint32_t kRankBits = 32 + kTokenBits;
inline constexpr uint32_t kLastToken = (1U << kTokenBits) - 1;
inline constexpr RankKey kFirstRank = (RankKey{1} << kRankBits) - 1;  // before all tokens
inline constexpr uint32_t kMinusInfinityKey = 0x007fffff;
inline constexpr RankKey kLastRank = RankKey{kMinusInfinityKey} << kTokenBits;

// Larger logits have larger keys; -0 and 0 have the same. Not for NaN.
inline constexpr uint32_t kSign = 0x80000000;
__device__ __forceinline__ uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0F);  // -0 + 0 is 0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
__device__ __forceinline__ float logit_of_key(uint32_t key) {
  return __uint_as_float((key & kSign) != 0 ? key & ~kSign : ~key);
}

__device__ __forceinline__ RankKey rank_of_key(uint32_t key, uint32_t token) {
  return RankKey{key} << kTokenBits | (kLastToken - token);
}
__device__ __forceinline__ RankKey rank_of(float logit, uint32_t token) {
  return rank_of_key(key_of(logit), token);
}
__device__ __forceinline__ float logit_of(RankKey key) {
  return logit_of_key(static_cast<uint32_t>(key >> kTokenBits));
}
__device__ __forceinline__ uint32_t token_of(RankKey key) {
  return kLastToken - (static_cast<uint32_t>(key) & kLastToken);
}

// The rank keys from `first` down to `last`, both included.
struct RankRange {
  RankKey first, last;
};

}  // namespace serval::device::sample
