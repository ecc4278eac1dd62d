#include "engine/server/metrics/process_stats.h"

#include <chrono>

#include "gtest/gtest.h"

namespace serval::server {
namespace {

TEST(ProcessStats, ReadsTheFieldsAfterAnyName) {
  std::string text = "42 (a) b (c) S";
  for (int field = 4; field <= 52; ++field) text += " " + std::to_string(field * 10);
  const auto stat = parse_proc_stat(text);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->user_ticks, 140U);
  EXPECT_EQ(stat->system_ticks, 150U);
  EXPECT_EQ(stat->start_ticks, 220U);
  EXPECT_EQ(stat->virtual_bytes, 230U);
  EXPECT_EQ(stat->resident_pages, 240U);
}

TEST(ProcessStats, RefusesTextOfAnotherForm) {
  EXPECT_FALSE(parse_proc_stat(""));
  EXPECT_FALSE(parse_proc_stat("42 (name) S 1 2 3"));
  std::string text = "42 (name) S";
  for (int field = 4; field <= 52; ++field) text += " x";
  EXPECT_FALSE(parse_proc_stat(text));
}

TEST(ProcessStats, DescribesThisProcess) {
  const auto stats = read_process_stats();
  ASSERT_TRUE(stats);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  constexpr double kYear = 366.0 * 24 * 3600;
  EXPECT_GT(stats->start_time, now - kYear);
  EXPECT_LT(stats->start_time, now + 2);
  EXPECT_GT(stats->resident_bytes, 100'000U);
  EXPECT_GE(stats->virtual_bytes, stats->resident_bytes);
  EXPECT_GE(stats->open_files, 3U);
  EXPECT_GE(stats->max_files, stats->open_files);
}

}  // namespace
}  // namespace serval::server
