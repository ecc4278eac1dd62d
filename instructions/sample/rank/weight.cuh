// Weights of candidates in a draw, as integers, so that sums do not depend on their order.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"

namespace serval::device::sample {

// exp(shortfall / temperature) in fixed point. The first candidate has weight kFirst, so that 2^24 of them
// stay below 2^64. Rounding changes a sum over a vocabulary of V by at most V / 2^40 of kFirst, which is
// 1.2e-7 for 128,256 tokens even if all roundings go the same way.
struct Weight {
  static constexpr uint32_t kFirstBits = 39;
  static constexpr uint64_t kFirst = uint64_t{1} << kFirstBits;
  static_assert(kFirstBits + kTokenBits < 64);

  float inverse_temperature;  // finite; 0 gives all candidates the same weight

  __device__ __forceinline__ uint64_t of(float shortfall) const {
    const float finite = fmaxf(shortfall, -FLT_MAX);  // 0 × infinity is no number
    return __float2ull_rn(expf(finite * inverse_temperature) * static_cast<float>(kFirst));
  }
};

// The remaining candidates: up to a last one, and not too far below the first. Others have weight 0.
struct Kept {
  float largest;  // logit of the first candidate
  float least_shortfall = kMinusInfinity;
  float last_logit = kMinusInfinity;
  uint32_t last_token = kLastToken;

  __device__ __forceinline__ void end_with(RankKey key) {
    last_logit = logit_of(key);
    last_token = token_of(key);
  }
  // Branchless, so that the weights of several candidates can be computed at the same time.
  __device__ __forceinline__ bool contains(uint32_t token, float logit) const {
    const bool ahead = (logit > last_logit) | ((logit == last_logit) & (token <= last_token));
    return ahead & (shortfall(logit, largest) >= least_shortfall);
  }
  __device__ __forceinline__ uint64_t weight_of(const Weight& weight, uint32_t token, float logit) const {
    const uint64_t whole = weight.of(shortfall(logit, largest));
    return contains(token, logit) ? whole : 0;
  }
  __device__ __forceinline__ uint64_t weight_of(const Weight& weight, RankKey key) const {
    return weight_of(weight, token_of(key), logit_of(key));
  }
};

}  // namespace serval::device::sample
