#include "profiler/sim/memory.h"

#include <gtest/gtest.h>

#include "profiler/sim/parameters.h"

namespace serval::sim {
namespace {

constexpr uint32_t kPage = 16 * 1024;

// Bandwidth in 1e9 bytes per second if every SM keeps `pages` pages in flight.
double stream(uint32_t sms, uint32_t pages) {
  Hbm hbm(h200_sim_parameters());
  for (uint32_t n = 0; n < pages; ++n)
    for (uint32_t sm = 0; sm < sms; ++sm) hbm.request(0, kPage, {sm, true});
  constexpr uint32_t kWaves = 20;  // of all requests in flight
  const uint32_t count = kWaves * sms * pages;
  double now = 0, begin = 0;
  for (uint32_t n = 0; n < 2 * count; ++n) {
    now = *hbm.next_answer();
    if (n + 1 == count) begin = now;
    hbm.request(now, kPage, hbm.answer(now));
  }
  return count * double{kPage} / (now - begin) / 1e3;
}

TEST(Curve, IsStraightBetweenItsPointsAndBehindThem) {
  const Curve curve({{1, 10}, {2, 20}, {4, 24}});
  EXPECT_EQ(curve(0), 10);
  EXPECT_EQ(curve(1.5), 15);
  EXPECT_EQ(curve(2), 20);
  EXPECT_EQ(curve(3), 22);
  EXPECT_EQ(curve(6), 28);
  EXPECT_EQ(Curve({{3, 7}})(100), 7);
}

TEST(Hbm, StreamsAsTheMeasurementDid) {
  for (const LoadPoint& point : h200_sim_parameters().under_load) {
    const auto pages = static_cast<uint32_t>(point.in_flight_bytes / kPage);
    if (pages == 0) continue;
    EXPECT_NEAR(stream(132, pages), point.gb_per_s, 0.02 * point.gb_per_s) << pages << " pages";
  }
}

TEST(Hbm, GivesOneSmNoMoreThanItsLatencyLets) {
  EXPECT_NEAR(stream(1, 1), stream(132, 1) / 132, 0.2);
  EXPECT_NEAR(stream(1, 2), 2 * stream(1, 1), 0.2);
}

TEST(Hbm, AnswersInTheOrderInWhichItWasAsked) {
  Hbm hbm(h200_sim_parameters());
  hbm.request(0, kPage, {7, true});
  hbm.request(0.1, 128, {3, false});
  EXPECT_EQ(hbm.answer(*hbm.next_answer()).sm, 7U);
  EXPECT_EQ(hbm.answer(*hbm.next_answer()).sm, 3U);
  EXPECT_FALSE(hbm.next_answer().has_value());
  EXPECT_EQ(hbm.queued_us(), 0);
}

TEST(Hbm, TakesLongerWhileMoreComesIn) {
  Hbm alone(h200_sim_parameters()), crowded(h200_sim_parameters());
  alone.request(0, kPage, {0, true});
  crowded.request(0, kPage, {0, true});
  for (uint32_t sm = 1; sm < 132; ++sm)
    for (int n = 0; n < 8; ++n) crowded.request(0.1, kPage, {sm, true});
  EXPECT_GT(*crowded.next_answer(), 4 * *alone.next_answer());
}

TEST(L2, TransfersOneAfterTheOther) {
  SimParameters p = h200_sim_parameters();
  p.l2_gb_per_s = 1;  // 1,000 bytes per µs
  L2 l2(p);
  EXPECT_DOUBLE_EQ(l2.read(0, 1000, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(l2.read(0, 1000, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(l2.read(10, 1000, 0.5), 11.5);
}

TEST(RoundCurve, IsTheMeasurementByWhatIsQueued) {
  const SimParameters& p = h200_sim_parameters();
  const Curve round = round_curve(p);
  EXPECT_EQ(round(0), p.under_load.front().round_us * p.round_factor);
  for (const LoadPoint& point : p.under_load) {
    Hbm hbm(p);
    for (uint32_t sm = 0; sm < 132 && point.in_flight_bytes > 0; ++sm)
      hbm.request(0, static_cast<uint32_t>(point.in_flight_bytes), {sm, true});
    EXPECT_NEAR(round(hbm.queued_us()), point.round_us * p.round_factor,
                0.02 * point.round_us * p.round_factor);
  }
}

}  // namespace
}  // namespace serval::sim
