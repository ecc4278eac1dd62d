// How much of a long test is run: everything, or a part. SERVAL_TEST_DIVISOR=4 asks for a quarter, for builds
// in which all code is slow; a test is never left out as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace serval::testing {

inline uint32_t sample_divisor() {
  const char* text = std::getenv("SERVAL_TEST_DIVISOR");
  return text == nullptr ? 1 : std::max(1U, static_cast<uint32_t>(std::strtoul(text, nullptr, 10)));
}

// The number of repetitions to run out of `full`, one at least.
inline uint32_t sampled(uint32_t full) {
  return std::max(1U, full / sample_divisor());
}

// Whether the case of this number is among those to run; the first always is.
inline bool in_sample(uint32_t number) {
  return number % sample_divisor() == 0;
}

}  // namespace serval::testing
