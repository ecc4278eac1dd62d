// One way in which BPE makes a token of two.
#pragma once

#include <cstdint>

namespace serval {

struct BpeMerge {
  std::int32_t left, right;
  std::int32_t rank;  // the lowest is merged first, of equal ones the leftmost
  std::int32_t result;
};

}  // namespace serval
