// A merge of two tokens into one.
#pragma once

#include <cstdint>

namespace serval {

struct BpeMerge {
  std::int32_t left, right;
  std::int32_t rank;  // the lowest rank is merged first; of equal ranks, the leftmost pair
  std::int32_t result;
};

}  // namespace serval
