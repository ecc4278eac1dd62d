// SMs whose clocks have different offsets and rates are aligned to one clock.
#include "profiler/trace/align_clocks.h"

#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

constexpr uint32_t kSms = 4;
constexpr int64_t kEpoch = 1'700'000'000'000'000'000;  // nanoseconds since 1970, as in a GPU's clock
constexpr int64_t kBetween = 10'000;

// The SM's clock at a moment after the epoch.
int64_t shown(uint32_t sm, int64_t ns) {
  constexpr double kOffsets[kSms] = {0, 900, -400, 0};
  constexpr double kRates[kSms] = {0, 0.004, 0, -0.001};
  return kEpoch + ns + static_cast<int64_t>(kOffsets[sm] + kRates[sm] * static_cast<double>(ns));
}

Execution notice(uint32_t sm, uint32_t pass, uint32_t counter, int64_t ns) {
  Execution e;
  e.sm = sm;
  e.pass = pass;
  e.last_counter = counter;
  e.set(EventKind::kWaitBegin, shown(sm, ns - 100));
  e.set(EventKind::kInputsReady, shown(sm, ns));
  return e;
}

// Every SM notices `moments` counters at intervals of kBetween.
std::vector<Execution> notices(uint32_t moments) {
  std::vector<Execution> executions;
  for (uint32_t m = 0; m < moments; ++m) {
    for (uint32_t sm = 0; sm < kSms; ++sm) executions.push_back(notice(sm, m / 10, m % 10, m * kBetween));
  }
  return executions;
}

int64_t largest_distance(const std::vector<Execution>& executions) {
  int64_t largest = 0;
  for (size_t e = 0; e < executions.size(); ++e) {
    const Execution& first = executions[e - e % kSms];
    largest = std::max(
        largest, std::abs(executions[e].time(EventKind::kInputsReady) - first.time(EventKind::kInputsReady)));
  }
  return largest;
}

TEST(AlignClocks, WhatAllNoticeTogetherIsTogetherAfterwards) {
  std::vector<Execution> executions = notices(200);
  std::vector<PageSample> samples;
  EXPECT_GT(largest_distance(executions), 7'000);
  correct_clocks(clock_errors(executions, kSms), executions, samples);
  EXPECT_LT(largest_distance(executions), 50);  // rates are applied to the clock's value
}

TEST(AlignClocks, AnSmsEventsKeepTheirOrderAndItsSamplesFollow) {
  std::vector<Execution> executions = notices(100);
  std::vector<PageSample> samples{{executions[1].time(EventKind::kInputsReady), 1, 0, 0}};
  correct_clocks(clock_errors(executions, kSms), executions, samples);
  EXPECT_EQ(samples[0].at_ns, executions[1].time(EventKind::kInputsReady));
  for (const Execution& e : executions)
    EXPECT_LT(e.time(EventKind::kWaitBegin), e.time(EventKind::kInputsReady));
}

TEST(AlignClocks, WhoSharesTooFewMomentsIsLeftAlone) {
  std::vector<Execution> executions = notices(4);
  const ClockErrors errors = clock_errors(executions, kSms);
  for (const ClockError& error : errors.of_sm) {
    EXPECT_EQ(error.offset_ns, 0);
    EXPECT_EQ(error.rate, 0);
  }
}

TEST(AlignClocks, WhatTheSmsOfOneGpuNoticeTogetherCounts) {
  std::vector<Execution> executions = notices(200);
  std::erase_if(executions, [](const Execution& e) { return e.sm >= kSms / 2; });
  std::vector<PageSample> samples;
  constexpr uint32_t kRanks = 4;  // the other ranks share no counter with these SMs
  correct_clocks(clock_errors(executions, kRanks * kSms / 2, kRanks), executions, samples);
  for (size_t e = 0; e < executions.size(); e += 2) {
    EXPECT_NEAR(static_cast<double>(executions[e].time(EventKind::kInputsReady) -
                                    executions[e + 1].time(EventKind::kInputsReady)),
                0, 50);
  }
}

TEST(AlignClocks, CountersThatFewSmsWaitForDoNotCount) {
  std::vector<Execution> executions;
  for (uint32_t m = 0; m < 100; ++m) executions.push_back(notice(1, 0, m, m * kBetween));
  EXPECT_EQ(clock_errors(executions, kSms).of_sm[1].rate, 0);
}

}  // namespace
}  // namespace serval
