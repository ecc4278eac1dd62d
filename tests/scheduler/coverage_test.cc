#include "scheduler/coverage.h"

#include <algorithm>
#include <array>

#include "gtest/gtest.h"

#include "vm/host/random_order.h"

namespace serval::testing {
namespace {

constexpr uint64_t kSide = 6;
constexpr Box kAll{0, kSide, 0, kSide};

Region region(Box box, Part part = Part::kWhole, uint32_t layout = 0) {
  return {{0}, box, Access::kWrite, 0, part, true, layout};
}

bool covers(const Coverage& coverage, const Region& read) {
  std::vector<Box> left = {read.box};
  coverage.subtract_from(left, read);
  return left.empty();
}

TEST(Coverage, HasWhatWasAddedAndNoMore) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomOrder random(seed);
    Coverage coverage(1);
    std::array<bool, kSide * kSide> written{};
    for (uint64_t boxes = 1 + random.below(8); boxes > 0; --boxes) {
      const uint64_t row = random.below(kSide), col = random.below(kSide);
      const Box box{row, row + 1 + random.below(kSide - row), col, col + 1 + random.below(kSide - col)};
      coverage.add(region(box));
      for (uint64_t r = box.row_begin; r < box.row_end; ++r)
        for (uint64_t c = box.col_begin; c < box.col_end; ++c) written[r * kSide + c] = true;
    }
    for (uint64_t r = 0; r < kSide; ++r) {
      for (uint64_t c = 0; c < kSide; ++c) {
        ASSERT_EQ(covers(coverage, region({r, r + 1, c, c + 1})), written[r * kSide + c]) << seed;
      }
    }
    ASSERT_EQ(covers(coverage, region(kAll)),
              std::all_of(written.begin(), written.end(), [](bool w) { return w; }));
  }
}

TEST(Coverage, OfAllActiveRowsIsOneOfThoseThatWantLogitsAndNotTheOtherWayRound) {
  Coverage active(1), logits(1), whole(1);
  active.add(region(kAll, Part::kActiveRows));
  logits.add(region(kAll, Part::kLogitsRows));
  whole.add(region(kAll));
  EXPECT_TRUE(covers(active, region(kAll, Part::kLogitsRows)));
  EXPECT_FALSE(covers(logits, region(kAll, Part::kActiveRows)));
  EXPECT_FALSE(covers(active, region(kAll)));
  EXPECT_FALSE(covers(active, region(kAll, Part::kNewTokens)));
  for (const Part part : {Part::kActiveRows, Part::kLogitsRows, Part::kNewTokens, Part::kSeenLeaves})
    EXPECT_TRUE(covers(whole, region(kAll, part)));
}

TEST(Coverage, OfLeavesIsOneOfTheSameLayout) {
  Coverage coverage(1);
  coverage.add(region(kAll, Part::kSeenLeaves, 4));
  EXPECT_TRUE(covers(coverage, region(kAll, Part::kSeenLeaves, 4)));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kSeenLeaves, 8)));
}

Region share(Part part, uint32_t share, uint32_t records = 3) {
  Region r = region(kAll, part, records);
  r.share = share;
  return r;
}

TEST(Coverage, OfWhatIsDealtOutTakesAllShares) {
  Coverage coverage(1);
  for (const uint32_t s : {0U, 2U, 2U}) coverage.add(share(Part::kItemPlaces, s));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kItemPlaces, 3)));
  coverage.add(share(Part::kItemPlaces, 1));
  EXPECT_TRUE(covers(coverage, region(kAll, Part::kItemPlaces, 3)));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kItemPlaces, 4)));
}

TEST(Coverage, OfTheRowsOfItemsAndOfSplitsIsOneOfActiveRows) {
  Coverage coverage(1);
  for (const uint32_t s : {2U, 0U, 1U}) coverage.add(share(Part::kItemRows, s));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kActiveRows)));
  for (const uint32_t s : {0U, 1U}) coverage.add(share(Part::kSplitRows, s));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kActiveRows)));
  coverage.add(share(Part::kSplitRows, 2));
  EXPECT_TRUE(covers(coverage, region(kAll, Part::kActiveRows)));
  EXPECT_FALSE(covers(coverage, region(kAll)));
}

TEST(Coverage, OfRowsThatNoItemsShareIsOneOfActiveRows) {
  Coverage coverage(1);
  for (const uint32_t s : {2U, 0U}) coverage.add(share(Part::kDealtRows, s));
  EXPECT_FALSE(covers(coverage, region(kAll, Part::kActiveRows)));
  coverage.add(share(Part::kDealtRows, 1));
  EXPECT_TRUE(covers(coverage, region(kAll, Part::kActiveRows)));
}

}  // namespace
}  // namespace serval::testing
