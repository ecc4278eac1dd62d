// GPUs whose clocks differ are aligned by their exchanges, with a known accuracy.
#include "profiler/trace/align_ranks.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/profiler/trace_builder.h"

namespace serval::testing {
namespace {

// In each token of two_gpu_trace(), GPU 1 sees at 340 a signal that GPU 0 sent at 120, and GPU 0 sees at 370
// a signal that GPU 1 sent at 320. So GPU 1's clock is at most 220 ns ahead and at most 50 ns behind.
constexpr double kMostAhead = 220, kMostBehind = 50;

// Adds `offset` to GPU 1's clock, and `rate` for each nanosecond.
Trace with_clock(Trace trace, int64_t offset, double rate) {
  for (Execution& x : trace.executions) {
    if (trace.program.rank_of(x.sm) == 0) continue;
    for (int64_t& ns : x.at) {
      if (ns != kNever) ns += offset + static_cast<int64_t>(rate * static_cast<double>(ns));
    }
  }
  return trace;
}

int64_t largest_distance(const Trace& a, const Trace& b) {
  int64_t largest = 0;
  for (size_t x = 0; x < a.executions.size(); ++x) {
    for (size_t kind = 0; kind < kNumEventKinds; ++kind)
      largest = std::max(largest, std::abs(a.executions[x].at[kind] - b.executions[x].at[kind]));
  }
  return largest;
}

TEST(AlignRanks, TakeTheMiddleOfWhatAnExchangeAllowsInBothDirections) {
  const RankClocks clocks = rank_clocks(two_gpu_trace().trace());
  ASSERT_EQ(clocks.of_rank.size(), 2U);
  EXPECT_EQ(clocks.of_rank[0]->within_ns, 0);
  ASSERT_TRUE(clocks.of_rank[1]);
  EXPECT_NEAR(clocks.of_rank[1]->error.offset_ns, (kMostAhead - kMostBehind) / 2, 1);
  EXPECT_NEAR(clocks.of_rank[1]->error.rate, 0, 1e-6);
  // Half the width plus, at the trace's end, the effect of a rate of 1 % after the last exchange.
  EXPECT_NEAR(clocks.of_rank[1]->within_ns, (kMostAhead + kMostBehind) / 2 + 0.01 * 680, 1);
}

TEST(AlignRanks, ClocksThatAreApartAndRunAtOtherRatesComeTogether) {
  const Trace trace = two_gpu_trace().trace();
  Trace moved = with_clock(trace, 40'000, 0.002);
  const RankClocks clocks = rank_clocks(moved);
  ASSERT_TRUE(clocks.of_rank[1]);
  EXPECT_NEAR(clocks.of_rank[1]->error.offset_ns, 40'000, kMostAhead);
  correct_ranks(clocks, moved);
  EXPECT_LE(largest_distance(moved, trace), clocks.of_rank[1]->within_ns + 1);
  EXPECT_EQ(moved.executions[0].at, trace.executions[0].at) << "GPU 0's clock is the one that counts";
}

TEST(AlignRanks, WhatIsAlignedStaysAsItIs) {
  Trace trace = two_gpu_trace().trace();
  correct_ranks(rank_clocks(trace), trace);
  Trace again = trace;
  correct_ranks(rank_clocks(again), again);
  EXPECT_LE(largest_distance(again, trace), 1);
}

TEST(AlignRanks, AGpuThatHearsAndIsNotHeardIsNotKnown) {
  TraceBuilder b(2);
  b.share(2);
  const uint32_t heard = b.counter(), gate = b.counter();
  b.counter();
  b.add("push", 0, {}, {heard});
  b.add("reduce", 1, {{heard, 1, 1}}, {});
  b.gate(gate);
  b.window(0, 100);
  b.execute(0, 0, 0, 10, 20);
  b.execute(1, 30, 30, 40, 50);
  const RankClocks clocks = rank_clocks(b.trace());
  EXPECT_FALSE(clocks.of_rank[1]);
  EXPECT_EQ(describe(clocks), "GPU 1: not known");
  Trace corrected = b.trace();
  correct_ranks(clocks, corrected);
  EXPECT_EQ(largest_distance(corrected, b.trace()), 0);
}

TEST(AlignRanks, WhereNoClockFitsItSaysHowMuchIsMissing) {
  Trace trace = two_gpu_trace().trace();
  // In the middle of the trace GPU 1 sees a signal that it can only see if its clock is 600 ns behind; its
  // next signal limits this to 50 again.
  for (Execution& x : trace.executions) {
    if (x.pass == 0 && trace.program.rank_of(x.sm) == 1) x.set(EventKind::kInputsReady, 0);
  }
  trace.executions[0].set(EventKind::kSignalled, 600);
  const RankClocks clocks = rank_clocks(trace);
  ASSERT_TRUE(clocks.of_rank[1]);
  EXPECT_NEAR(clocks.of_rank[1]->within_ns, (600 - kMostBehind) / 2, 5);
}

TEST(AlignRanks, OneGpuHasNothingToSay) {
  const RankClocks clocks = rank_clocks(two_sm_trace().trace());
  ASSERT_EQ(clocks.of_rank.size(), 1U);
  EXPECT_EQ(describe(clocks), "");
}

}  // namespace
}  // namespace serval::testing
