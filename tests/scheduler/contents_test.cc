#include "scheduler/contents.h"

#include <array>
#include <set>

#include "gtest/gtest.h"

#include "vm/host/random_order.h"

namespace serval::testing {
namespace {

constexpr uint64_t kSide = 6;
constexpr Box kAll{0, kSide, 0, kSide};
constexpr uint32_t kShares = 3;

Region region(Box box, Part part = Part::kWhole, uint32_t layout = 0) {
  return {{0}, box, Access::kWrite, 0, part, true, layout};
}
Region share(uint32_t share, Part part) {
  return {{0}, kAll, Access::kWrite, 0, part, true, kShares, share};
}

// Contents of one tensor. The values are made up: no instruction computes them.
struct OneTensor {
  ValueTable values;
  Contents contents{1, values};

  Value find(const Region& read) { return contents.find(read).value; }
  void write_shares(Part part, Value value, std::initializer_list<uint32_t> shares = {0, 1, 2}) {
    for (const uint32_t s : shares) contents.write(share(s, part), value, 0);
  }
};

TEST(Contents, EachElementHasTheValueThatWasWrittenLast) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    RandomOrder random(seed);
    OneTensor t;
    std::array<Value, kSide * kSide> expected{};
    for (uint64_t boxes = 1 + random.below(12); boxes > 0; --boxes) {
      const uint64_t row = random.below(kSide), col = random.below(kSide);
      const Box box{row, row + 1 + random.below(kSide - row), col, col + 1 + random.below(kSide - col)};
      const Value value = 1 + random.below(3);
      t.contents.write(region(box), value, 0);
      for (uint64_t r = box.row_begin; r < box.row_end; ++r)
        for (uint64_t c = box.col_begin; c < box.col_end; ++c) expected[r * kSide + c] = value;
    }
    for (uint64_t r = 0; r < kSide; ++r) {
      for (uint64_t c = 0; c < kSide; ++c)
        ASSERT_EQ(t.find(region({r, r + 1, c, c + 1})), expected[r * kSide + c]) << seed;
    }
    const std::set<Value> all(expected.begin(), expected.end());
    ASSERT_EQ(t.find(region(kAll)), all.size() == 1 ? *all.begin() : kNoValue);
    ASSERT_EQ(t.contents.uncovered(region(kAll)).has_value(), all.contains(kNoValue));
  }
}

TEST(Contents, NamesTwoWritersOfDifferentValues) {
  OneTensor t;
  t.contents.write(region({0, 3, 0, kSide}), 7, 10);
  t.contents.write(region({3, kSide, 0, kSide}), 8, 11);
  const Contents::Found found = t.contents.find(region(kAll));
  EXPECT_EQ(found.value, kNoValue);
  EXPECT_EQ((std::set<uint32_t>{found.one, found.other}), (std::set<uint32_t>{10, 11}));
}

TEST(Contents, AllActiveRowsIncludeThoseThatWantLogitsButNotConversely) {
  OneTensor active, logits, whole;
  active.contents.write(region(kAll, Part::kActiveRows), 1, 0);
  logits.contents.write(region(kAll, Part::kLogitsRows), 1, 0);
  whole.contents.write(region(kAll), 1, 0);
  EXPECT_EQ(active.find(region(kAll, Part::kLogitsRows)), 1U);
  EXPECT_EQ(logits.find(region(kAll, Part::kActiveRows)), kNoValue);
  EXPECT_EQ(active.find(region(kAll)), kNoValue);
  EXPECT_EQ(active.find(region(kAll, Part::kNewTokens)), kNoValue);
  for (const Part part : {Part::kActiveRows, Part::kLogitsRows, Part::kNewTokens, Part::kSeenLeaves})
    EXPECT_EQ(whole.find(region(kAll, part)), 1U);
}

TEST(Contents, RewritingRowsThatWantLogitsLeavesAllActiveRowsWithoutAValue) {
  OneTensor t;
  t.contents.write(region(kAll, Part::kActiveRows), 1, 0);
  t.contents.write(region(kAll, Part::kLogitsRows), 2, 0);
  EXPECT_EQ(t.find(region(kAll, Part::kLogitsRows)), 2U);
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
}

TEST(Contents, AWriteInOnlySomeStatesLeavesNoValue) {
  OneTensor t;
  t.contents.write(region(kAll), 1, 0);
  Region uncertain = region({0, 1, 0, 1});
  uncertain.certain = false;
  t.contents.write(uncertain, 2, 0);
  EXPECT_EQ(t.find(region(kAll)), kNoValue);
  EXPECT_EQ(t.find(region({1, kSide, 0, kSide})), 1U);
}

TEST(Contents, LeavesOfDifferentLayoutsAreDifferentParts) {
  OneTensor t;
  t.contents.write(region(kAll, Part::kSeenLeaves, 4), 1, 0);
  EXPECT_EQ(t.find(region(kAll, Part::kSeenLeaves, 4)), 1U);
  EXPECT_EQ(t.find(region(kAll, Part::kSeenLeaves, 6)), kNoValue);
}

TEST(Contents, AllSharesTogetherAreThePart) {
  OneTensor t;
  t.write_shares(Part::kDividedRows, 1, {0, 2});
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
  t.write_shares(Part::kDividedRows, 1, {1});
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), 1U);
}

TEST(Contents, SharesWithDifferentValuesHaveNoCommonValue) {
  OneTensor t;
  t.write_shares(Part::kDividedRows, 1, {0, 2});
  t.write_shares(Part::kDividedRows, 2, {1});
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
  t.write_shares(Part::kDividedRows, 1, {0, 2});
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
}

TEST(Contents, TheFirstShareOfTheNextDivisionInvalidatesThePreviousOne) {
  OneTensor t;
  t.write_shares(Part::kItemPlaces, 1);
  EXPECT_EQ(t.find(region(kAll, Part::kItemPlaces, kShares)), 1U);
  t.write_shares(Part::kItemPlaces, 1, {2});
  EXPECT_EQ(t.find(region(kAll, Part::kItemPlaces, kShares)), kNoValue);
  t.write_shares(Part::kItemPlaces, 1, {0, 1});
  EXPECT_EQ(t.find(region(kAll, Part::kItemPlaces, kShares)), 1U);
}

TEST(Contents, ItemRowsAndSplitRowsTogetherAreAllActiveRows) {
  OneTensor t;
  t.write_shares(Part::kItemRows, 1);
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
  t.write_shares(Part::kSplitRows, 2);
  const Value first = t.find(region(kAll, Part::kActiveRows));
  EXPECT_EQ(first, t.values.either(1, 2));
  // The next layer writes.
  t.write_shares(Part::kItemRows, 3);
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
  t.write_shares(Part::kSplitRows, 4);
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), t.values.either(3, 4));
}

TEST(Contents, ADroppedShareOfTheNextLayerLeavesNoValue) {
  for (const Part dropped : {Part::kItemRows, Part::kSplitRows}) {
    OneTensor t;
    t.write_shares(Part::kItemRows, 1);
    t.write_shares(Part::kSplitRows, 2);
    for (const Part part : {Part::kItemRows, Part::kSplitRows}) {
      if (part == dropped)
        t.write_shares(part, 3, {0, 1});
      else
        t.write_shares(part, 4);
    }
    EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
  }
}

TEST(Contents, SharesOfOneLayerDoNotCompleteThoseOfAnother) {
  OneTensor t;
  t.write_shares(Part::kItemRows, 1);
  t.write_shares(Part::kSplitRows, 2);
  t.write_shares(Part::kSplitRows, 3);  // the next layer's, whose kItemRows are dropped
  EXPECT_EQ(t.find(region(kAll, Part::kActiveRows)), kNoValue);
}

TEST(Contents, AreEqualHoweverTheirBoxesAreCut) {
  ValueTable values;
  Contents a(2, values), b(1, values);
  a.write({{1}, kAll, Access::kWrite, 0, Part::kActiveRows, true}, 1, 0);
  for (uint64_t row = 0; row < kSide; ++row) {
    EXPECT_FALSE(a.same_as({1}, b, {0}));
    b.write(region({row, row + 1, 0, kSide}, Part::kActiveRows), 1, 0);
  }
  EXPECT_TRUE(a.same_as({1}, b, {0}));
  b.write(region({0, 1, 0, 1}, Part::kActiveRows), 2, 0);
  EXPECT_FALSE(a.same_as({1}, b, {0}));
}

TEST(ValueTable, GivesEqualComputationsEqualNumbers) {
  ValueTable values;
  const std::array<uint64_t, 3> words = {1, 2, 3}, others = {1, 2, 4};
  EXPECT_EQ(values.computation(words), values.computation(words));
  EXPECT_NE(values.computation(words), values.computation(others));
  EXPECT_NE(values.computation(words), values.computation(std::span(words).first(2)));
  EXPECT_NE(ValueTable::written(0, 1), ValueTable::written(0, 2));
  EXPECT_NE(ValueTable::written(0, 0), kNoValue);
  EXPECT_EQ(values.before_pass("a"), values.before_pass("a"));
  EXPECT_NE(values.before_pass("a"), values.before_pass("b"));
}

}  // namespace
}  // namespace serval::testing
