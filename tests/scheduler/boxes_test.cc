#include "scheduler/boxes.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

constexpr uint64_t kSide = 5;

// The number of boxes that contain an element.
int64_t holders(const std::vector<Box>& boxes, uint64_t row, uint64_t col) {
  return std::count_if(boxes.begin(), boxes.end(), [&](const Box& b) {
    return b.overlaps({row, row + 1, col, col + 1});
  });
}

std::vector<Box> all_boxes() {
  std::vector<Box> out;
  for (uint64_t row = 0; row < kSide; ++row) {
    for (uint64_t row_end = row + 1; row_end <= kSide; ++row_end) {
      for (uint64_t col = 0; col < kSide; ++col) {
        for (uint64_t col_end = col + 1; col_end <= kSide; ++col_end)
          out.push_back({row, row_end, col, col_end});
      }
    }
  }
  return out;
}

TEST(Boxes, DifferenceIsExactlyTheElementsOutsideTheCut) {
  for (const Box& box : all_boxes()) {
    for (const Box& cut : all_boxes()) {
      std::vector<Box> rest;
      append_difference(box, cut, rest);
      for (uint64_t row = 0; row < kSide; ++row) {
        for (uint64_t col = 0; col < kSide; ++col) {
          const bool left = holders({box}, row, col) == 1 && holders({cut}, row, col) == 0;
          ASSERT_EQ(holders(rest, row, col), left ? 1 : 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace serval::testing
