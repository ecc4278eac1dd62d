// Effect of biases and penalties on a logit, defined once for the host and the GPU: the bits are the same
// however a compiler fuses operations.
#pragma once

#include <cstdint>

namespace serval {

constexpr float repetition_penalised(float logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

// For a token that was generated `count` times, 1 or more. The product is exact in double (24 + 24 bits), so
// rounding it before the addition makes no difference.
constexpr float count_penalised(float logit, uint32_t count, float frequency, float presence) {
  const double penalty = static_cast<double>(count) * static_cast<double>(frequency) + presence;
  return static_cast<float>(static_cast<double>(logit) - penalty);
}

}  // namespace serval
