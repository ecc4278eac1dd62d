// The values that Backend::fill_cache writes: the same in every backend.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/checkpoint/random_weights.h"

namespace serval {

// Uses the hash of random weights: odd multiples of 1/256 between -1 and 1.
inline constexpr float kCacheFillScale = 0x1p-8F;
constexpr uint64_t cache_fill_key(std::string_view tensor_name) {
  return random_tensor_key(tensor_name, 0);
}

}  // namespace serval
