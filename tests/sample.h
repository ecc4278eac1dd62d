// Runs only a part of long tests in slow builds: with SERVAL_TEST_DIVISOR=4 a quarter. No test is skipped
// completely.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace serval::testing {

inline uint32_t sample_divisor() {
  const char* text = std::getenv("SERVAL_TEST_DIVISOR");
  return text == nullptr ? 1 : std::max(1U, static_cast<uint32_t>(std::strtoul(text, nullptr, 10)));
}

// The number of repetitions to run out of `full`; at least one.
inline uint32_t sampled(uint32_t full) {
  return std::max(1U, full / sample_divisor());
}

// True if the case of this number is to run. Always true for case 0.
inline bool in_sample(uint32_t number) {
  return number % sample_divisor() == 0;
}

}  // namespace serval::testing
