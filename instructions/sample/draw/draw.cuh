// Selects the drawn candidate: top-k, top-p, min-p and temperature, in this order (sampler.h).
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "instructions/sample/draw/candidates.cuh"
#include "instructions/sample/draw/parameters.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/rank/weight.cuh"

namespace serval::device::sample {

// Each step finds the candidate at which a cumulative weight exceeds a target.
enum class Step : uint32_t { kFirst, kTopK, kTopP, kDraw, kCount };

// The purpose of draw(): the candidate of a rank (1: the first), or a random draw.
struct Aim {
  int32_t top_k;  // or the rank
  bool draws;
};

__device__ __forceinline__ bool applies(Step step, const Candidates& candidates, const Parameters& p,
                                        const Aim& aim, uint32_t vocab) {
  if (step == Step::kFirst) return !candidates.has(1);
  if (aim.draws && p.temperature <= 0) return false;
  if (step == Step::kTopK) return aim.top_k > 0 && static_cast<uint32_t>(aim.top_k) <= vocab;
  return aim.draws && (step == Step::kDraw || p.top_p < 1);
}

// The first two steps count candidates, and top-p uses the untempered distribution.
__device__ __forceinline__ float inverse_temperature(Step step, const Parameters& p) {
  if (step == Step::kDraw) return fminf(1 / p.temperature, FLT_MAX);
  return step == Step::kTopP ? 1 : 0;
}

// `total`: weight of all remaining candidates; u is in [0, 1).
__device__ __forceinline__ uint64_t target(Step step, const Parameters& p, const Aim& aim, float u,
                                           uint64_t total) {
  if (step == Step::kFirst) return 0;
  if (step == Step::kTopK) return static_cast<uint64_t>(aim.top_k) * Weight::kFirst - 1;
  if (step == Step::kDraw) return static_cast<uint64_t>(u * static_cast<double>(total));
  const double enough = ceil(p.top_p * static_cast<double>(total));
  return enough > 1 ? static_cast<uint64_t>(enough) - 1 : 0;  // at least one candidate stays
}

// A loop over the steps, so that the kernel contains their common code once.
__device__ __forceinline__ RankKey draw(const Candidates& candidates, const Parameters& p, const Aim& aim,
                                        float u, uint32_t vocab) {
  // Until the first candidate is known, any largest logit works, because the first steps only count.
  RankKey key = candidates.has(1) ? candidates.ranked(1) : rank_of(INFINITY, 0);
  Kept kept = {.largest = logit_of(key)};
#pragma unroll 1
  for (uint32_t i = 0; i < static_cast<uint32_t>(Step::kCount); ++i) {
    const Step step{i};
    if (!applies(step, candidates, p, aim, vocab)) continue;
    if (step == Step::kDraw && p.min_p > 0) kept.least_shortfall = fminf(logf(p.min_p), 0);
    const bool needs_total = step == Step::kTopP || step == Step::kDraw;
    if (step == Step::kTopK && candidates.has(static_cast<uint32_t>(aim.top_k))) {
      key = candidates.ranked(static_cast<uint32_t>(aim.top_k));
    } else {
      key = candidates.at(kept, {inverse_temperature(step, p)}, needs_total,
                          [&](uint64_t total) { return target(step, p, aim, u, total); });
    }
    if (step == Step::kFirst) {
      kept.largest = logit_of(key);
    } else {
      kept.end_with(key);
    }
  }
  return key;
}

}  // namespace serval::device::sample
