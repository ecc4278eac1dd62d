// Summaries of logits that `lm_head` writes, so that `sample` need not read all logits: for each unit of 8
// tokens its largest logit, that logit's token, and the unit's share of the softmax denominator.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "vm/layout/units.h"

namespace serval {

// Stored as two neighbouring f32. Exponentials are taken without subtracting a maximum, so that `sample` only
// has to add; if they leave the range of float, sums are infinite or zero, and `sample` reads the logits.
struct UnitSoftmax {
  float largest;  // NaN counts as the smallest: never NaN
  float sum;  // of exp(logit); its lowest bits: index in the unit of the first token with `largest`. NaN if a
              // logit is NaN or infinite
};
inline constexpr uint32_t kUnitSoftmaxCols = sizeof(UnitSoftmax) / sizeof(float);
// Mask of that index, which is arbitrary if no logit is more than -infinity.
inline constexpr uint32_t kFirstOfUnitMask = kUnitRows - 1;
constexpr uint32_t bits_with_first(uint32_t sum_bits, uint32_t first) {
  return (sum_bits & ~kFirstOfUnitMask) | (first & kFirstOfUnitMask);
}

// Returns `share`, a logit's share of a sum, or NaN if the logit is NaN or infinite.
constexpr float share_if_finite(float logit, float share) {
  return logit * 0.0F + share;  // one instruction on the GPU
}

// `logits`: those of a unit, 1 to 8. Added as a tree of neighbours, as the lanes of a warp do. Thread-safe.
inline UnitSoftmax unit_softmax(std::span<const float> logits) {
  UnitSoftmax unit{-std::numeric_limits<float>::infinity(), 0};
  float sums[kUnitRows] = {};
  uint32_t first = 0;
  for (uint32_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > unit.largest) unit.largest = logits[first = i];
    sums[i] = share_if_finite(logits[i], std::exp(logits[i]));
  }
  for (uint32_t step = 1; step < kUnitRows; step *= 2) {
    for (uint32_t i = 0; i < kUnitRows; i += 2 * step) sums[i] += sums[i + step];
  }
  unit.sum = std::bit_cast<float>(bits_with_first(std::bit_cast<uint32_t>(sums[0]), first));
  return unit;
}

}  // namespace serval
