#include "models/checkpoint/parallel.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(ForEachPiece, RunsEachOnce) {
  std::vector<std::atomic<int>> runs(1000);
  for_each_piece(runs.size(), [&](size_t piece) { ++runs[piece]; }, {});
  for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
}

TEST(ForEachPiece, ReportsProgressUpwardsAndTheEndOnce) {
  std::vector<size_t> reports;
  for_each_piece(
      100, [](size_t) {}, [&](size_t done) { reports.push_back(done); });
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
  EXPECT_EQ(std::count(reports.begin(), reports.end(), 100), 1);
  EXPECT_EQ(reports.back(), 100);
}

TEST(ForEachPiece, NoPiecesEndAtOnce) {
  int reports = 0;
  for_each_piece(
      0, [](size_t) { FAIL(); }, [&](size_t) { ++reports; });
  EXPECT_EQ(reports, 1);
}

TEST(ForEachPiece, AnExceptionFromProgressEndsTheWork) {
  const auto cancel = [](size_t) { throw std::runtime_error("cancelled"); };
  EXPECT_THROW(for_each_piece(
                   1000, [](size_t) {}, cancel),
               std::runtime_error);
}

}  // namespace
}  // namespace serval
