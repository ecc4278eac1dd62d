#include "scheduler/box_index.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

struct Entry {
  Box box;
  uint32_t time = 0;
  uint32_t number = 0;
};

std::set<uint32_t> overlapping(const BoxIndex<Entry>& index, const Box& box) {
  std::set<uint32_t> out;
  index.for_overlapping(box, [&](const Entry& entry) { out.insert(entry.number); });
  return out;
}

// Boxes of all magnitudes, enough for several blocks.
TEST(BoxIndex, FindsTheBoxesThatOverlapAndCutsThem) {
  constexpr uint64_t kRows = 300, kCols = 3000;
  constexpr uint32_t kSteps = 3000;
  std::mt19937 random(1);
  const auto range = [&](uint64_t end) {
    const uint64_t begin = random() % end, most = random() % 3 == 0 ? end - begin : 1 + random() % 8;
    return std::pair(begin, begin + 1 + random() % std::min<uint64_t>(most, end - begin));
  };
  BoxIndex<Entry> index;
  std::vector<Entry> all;  // the expected contents
  for (uint32_t step = 0; step < kSteps; ++step) {
    const auto [row_begin, row_end] = range(kRows);
    const auto [col_begin, col_end] = range(kCols);
    const Box box{row_begin, row_end, col_begin, col_end};
    std::set<uint32_t> expected;
    for (const Entry& entry : all) {
      if (entry.box.overlaps(box)) expected.insert(entry.number);
    }
    ASSERT_EQ(overlapping(index, box), expected) << step;
    if (random() % 8 == 0) {
      index.carve(box, step);
      std::vector<Entry> left;
      for (const Entry& entry : all) {
        for_difference(entry.box, box, [&](const Box& piece) { left.push_back({piece, 0, entry.number}); });
      }
      all = std::move(left);
    } else {
      index.add({box, 0, step});
      all.push_back({box, 0, step});
      const Entry* const found = index.find(box, [&](const Entry& entry) { return entry.number == step; });
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->box, box);
    }
  }
}

TEST(BoxIndex, KeepsEntriesThatAreAddedAfterACut) {
  BoxIndex<Entry> index;
  index.add({{0, 4, 0, 4}, 1, 1});
  index.add({{0, 4, 0, 4}, 2, 2});
  index.carve({0, 4, 0, 4}, 1);
  EXPECT_EQ(overlapping(index, {0, 4, 0, 4}), (std::set<uint32_t>{2}));
}

// Boxes of single rows and units in random order, beside one box of all rows and one of all columns. A
// program file that our scheduler has not made may contain such windows.
TEST(BoxIndex, VisitsFewBoxesThatDoNotOverlap) {
  constexpr uint64_t kRows = 2048, kUnits = 16;
  constexpr uint64_t kMostVisited = 200;  // of 32,768, for each query
  std::vector<Box> windows;
  for (uint64_t row = 0; row < kRows; ++row) {
    for (uint64_t unit = 0; unit < kUnits; ++unit) windows.push_back({row, row + 1, unit * 8, unit * 8 + 8});
  }
  std::shuffle(windows.begin(), windows.end(), std::mt19937(1));
  BoxIndex<Entry> index;
  index.add({{0, kRows, 200, 208}, 0, 0});
  index.add({{kRows, kRows + 1, 0, 208}, 0, 1});
  for (uint32_t w = 0; w < windows.size(); ++w) {
    EXPECT_TRUE(overlapping(index, windows[w]).empty());
    index.add({windows[w], 0, w + 2});
  }
  EXPECT_LT(index.visited(), kMostVisited * windows.size());
}

}  // namespace
}  // namespace serval::testing
