#include "scheduler/access_log.h"

#include <algorithm>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

constexpr Box kAll{0, 6, 0, 6};
constexpr uint32_t kRecords = 3;

Region access(Access access, Box box = kAll) {
  return {{0}, box, access, 0, Part::kWhole, true};
}
Region share(uint32_t share, Part part = Part::kItemRows) {
  return {{0}, kAll, Access::kWrite, 0, part, true, kRecords, share};
}

std::set<uint32_t> conflicts(AccessLog& log, const Region& region) {
  std::set<uint32_t> out;
  log.for_conflicts(region,
                    [&](const AccessLog::Nodes& met) { out.insert(met.nodes.begin(), met.nodes.end()); });
  return out;
}

TEST(AccessLog, AShareConflictsWithNoOtherShareOfItsDivision) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{11}));
  EXPECT_EQ(conflicts(log, share(1, Part::kSplitRows)), (std::set<uint32_t>{10, 11, 12}));
  EXPECT_EQ(conflicts(log, access(Access::kRead)), (std::set<uint32_t>{10, 11, 12}));
  EXPECT_EQ(conflicts(log, access(Access::kWrite)), (std::set<uint32_t>{10, 11, 12}));
}

// Until the division is complete, each of its writers conflicts with earlier accesses.
TEST(AccessLog, ACompleteDivisionHidesEarlierAccesses) {
  AccessLog log(1);
  log.record(access(Access::kWrite), 1);
  log.record(access(Access::kRead), 2);
  log.record(share(0), 10);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{1, 2}));
  log.record(share(2), 12);
  EXPECT_EQ(conflicts(log, share(1)), (std::set<uint32_t>{1, 2}));
  log.record(access(Access::kRead), 3);  // within the division: not hidden
  log.record(share(1), 11);
  EXPECT_EQ(conflicts(log, access(Access::kWrite)), (std::set<uint32_t>{3, 10, 11, 12}));
}

TEST(AccessLog, TheNextDivisionHidesThePreviousOne) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  log.record(access(Access::kRead), 20);
  for (uint32_t s = 0; s < kRecords; ++s) {
    EXPECT_EQ(conflicts(log, share(s)), (std::set<uint32_t>{10 + s, 20}));
    log.record(share(s), 30 + s);
  }
  EXPECT_EQ(conflicts(log, access(Access::kRead)), (std::set<uint32_t>{30, 31, 32}));
}

TEST(AccessLog, AWholeWriteHidesADivision) {
  AccessLog log(1);
  for (uint32_t s = 0; s < kRecords; ++s) log.record(share(s), 10 + s);
  log.record(access(Access::kWrite), 20);
  EXPECT_EQ(conflicts(log, share(0)), (std::set<uint32_t>{20}));
}

TEST(AccessLog, AReaderOfAPieceOfACutBoxDoesNotReadTheOtherPieces) {
  AccessLog log(1);
  log.record(access(Access::kRead), 1);
  log.record(access(Access::kWrite, {0, 6, 2, 4}), 2);
  log.record(access(Access::kRead, {0, 6, 0, 2}), 3);
  EXPECT_EQ(conflicts(log, access(Access::kWrite, {0, 6, 0, 2})), (std::set<uint32_t>{1, 3}));
  EXPECT_EQ(conflicts(log, access(Access::kWrite, {0, 6, 4, 6})), (std::set<uint32_t>{1}));
}

// Records random, overlapping boxes. For each cell the log must know the last writer and all readers since.
TEST(AccessLog, FindsTheLastAccessesToEachCell) {
  constexpr uint32_t kAccesses = 3000;
  constexpr uint64_t kRows = 6, kCols = 40;
  struct Cell {
    std::set<uint32_t> writer, readers;
  };
  std::vector<Cell> cells(kRows * kCols);
  AccessLog log(1);
  std::mt19937 random(1);
  const auto range = [&](uint64_t end) {
    const uint64_t a = random() % end, b = random() % end;
    return std::pair(std::min(a, b), std::max(a, b) + 1);
  };
  for (uint32_t node = 0; node < kAccesses; ++node) {
    const auto [row_begin, row_end] = range(kRows);
    const auto [col_begin, col_end] = range(kCols);
    const bool is_write = random() % 2 == 0;
    const Region region =
        access(is_write ? Access::kWrite : Access::kRead, {row_begin, row_end, col_begin, col_end});
    std::set<uint32_t> expected;
    for (uint64_t row = row_begin; row < row_end; ++row) {
      for (uint64_t col = col_begin; col < col_end; ++col) {
        Cell& cell = cells[row * kCols + col];
        expected.insert(cell.writer.begin(), cell.writer.end());
        if (is_write) expected.merge(std::exchange(cell, {{node}, {}}).readers);
        if (!is_write) cell.readers.insert(node);
      }
    }
    ASSERT_EQ(conflicts(log, region), expected) << node;
    log.record(region, node);
  }
}

// Layer after layer writes the same windows, in any order, some of them twice; what is read is mostly more
// than one of them.
TEST(AccessLog, WindowsWrittenInAnyOrderHideWhatWasReadOfThem) {
  constexpr uint32_t kSteps = 5000;
  constexpr uint64_t kWindows = 6, kCols = 36;
  const auto window = [](uint64_t w) { return Box{0, 6, w * w, (w + 1) * (w + 1)}; };
  struct Cell {
    std::set<uint32_t> writer, readers;
  };
  std::vector<Cell> cells(kCols);
  AccessLog log(1);
  std::mt19937 random(1);
  for (uint32_t node = 0; node < kSteps; ++node) {
    const bool is_write = random() % 4 != 0;
    const uint64_t first = random() % kWindows,
                   last = is_write ? first : first + random() % (kWindows - first);
    const Box box{0, 6, window(first).col_begin, window(last).col_end};
    const Region region = access(is_write ? Access::kWrite : Access::kRead, box);
    const bool is_asked = node < kWindows || random() % 2 == 0;  // nothing depends on whether it is
    std::set<uint32_t> expected;
    for (uint64_t col = box.col_begin; col < box.col_end; ++col) {
      Cell& cell = cells[col];
      expected.insert(cell.writer.begin(), cell.writer.end());
      if (is_write) expected.merge(std::exchange(cell, {{node}, {}}).readers);
      if (!is_write) cell.readers.insert(node);
    }
    if (is_asked) {
      ASSERT_EQ(conflicts(log, region), expected) << node;
    }
    log.record(region, node);
  }
}

}  // namespace
}  // namespace serval::testing
