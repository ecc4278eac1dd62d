#include "profiler/report/report.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "profiler/report/diff.h"
#include "tests/profiler/trace_builder.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Report, SaysWhereATokensTimeGoes) {
  const Report report = report_of(two_sm_trace().trace());
  EXPECT_EQ(report.tokens, 2U);
  EXPECT_DOUBLE_EQ(report.median_token_ns, 1000);
  EXPECT_EQ(report.bytes, 3150U);
  EXPECT_DOUBLE_EQ(report.gb_per_s, 3.15);
  EXPECT_DOUBLE_EQ(report.limit_ns, 315);
  double path_ns = 0;
  for (const PathSummary& p : report.path) path_ns += p.ns;
  EXPECT_DOUBLE_EQ(path_ns, 1000);
  EXPECT_EQ(report.path.front().op, "long");
  EXPECT_EQ(report.path.front().state, SliceState::kLoad);
}

TEST(Report, AddsUpEachOpsStates) {
  const Report report = report_of(two_sm_trace().trace());
  ASSERT_EQ(report.ops.size(), 3U);
  const OpSummary& slow = report.ops[2];
  EXPECT_EQ(slow.op, "long");
  EXPECT_EQ(slow.executions, 1U);
  EXPECT_EQ(slow.bytes, 3000U);
  EXPECT_DOUBLE_EQ(slow.compute_ns, 260);
  EXPECT_DOUBLE_EQ(slow.store_ns, 50);
  // Before the first token's compute: 300; before the second's: 1300 - 600; and 40 without pages.
  EXPECT_DOUBLE_EQ(slow.load_ns, (300 + 700) / 2.0 + 40);
}

TEST(Report, FindsBubblesImbalanceAndStragglers) {
  TraceBuilder b(3);
  const uint32_t done = b.counter(), gate = b.counter();
  for (uint32_t sm = 0; sm < 3; ++sm) b.add("slice", sm, {}, {done}, sm == 2 ? 200 : 50);
  b.add("join", 0, {{done, 3, 1}}, {gate});
  b.gate(gate);
  b.window(0, 1000);
  for (uint32_t sm = 0; sm < 3; ++sm) b.execute(sm, 0, 0, sm == 2 ? 600 : 100, sm == 2 ? 700 : 200);
  b.execute(3, 720, 720, 900, 1000).last_counter = done;
  std::stable_sort(b.trace().executions.begin(), b.trace().executions.end(),
                   [](const Execution& x, const Execution& y) { return x.sm < y.sm; });
  const Report report = report_of(b.trace());
  EXPECT_DOUBLE_EQ(report.imbalance, 1);
  EXPECT_DOUBLE_EQ(report.by_sm[0].wait_ns, 620);
  EXPECT_EQ(report.by_sm[0].worst_wait, "join");
  EXPECT_DOUBLE_EQ(report.by_sm[1].idle_ns, 900);
  ASSERT_EQ(report.stragglers.size(), 1U);
  EXPECT_EQ(report.stragglers[0].sm, 2U);
  EXPECT_DOUBLE_EQ(report.stragglers[0].late_ns, 500);
}

TEST(Report, ATraceWithoutATokenHasNone) {
  EXPECT_THROW(report_of(TraceBuilder(1).trace()), Error);
}

TEST(Report, IsPrintedAsTextAndAsJson) {
  Report report = report_of(two_sm_trace().trace());
  report.savings = {{"more of everything", 250}};
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("token time        1.00 us (median of 2"));
  EXPECT_THAT(text, HasSubstr("more of everything"));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["source"], "device");
  EXPECT_EQ(json["path"][0]["state"], "load");
  EXPECT_EQ(json["savings"][0]["saved_ns"], 250);
  EXPECT_EQ(json["by_sm"].size(), 2U);
  EXPECT_TRUE(json["stragglers"].is_array());
}

TEST(Report, TellsWhatThePathWaitedForOverTheLink) {
  const Report report = report_of(two_gpu_trace().trace());
  EXPECT_EQ(report.ranks, 2U);
  EXPECT_DOUBLE_EQ(report.limit_gb_per_s, 20) << "of both GPUs";
  const auto link = std::find_if(report.path.begin(), report.path.end(), [](const PathSummary& p) {
    return std::string(p.state_name()) == kLinkState;
  });
  ASSERT_NE(link, report.path.end());
  EXPECT_EQ(link->op, "reduce");
  EXPECT_DOUBLE_EQ(link->ns, 50);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("device, 2 SMs of 2 GPUs"));
  EXPECT_THAT(text, HasSubstr("idle     link      all"));
  EXPECT_THAT(text, HasSubstr("GPU 1 SM 0"));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["ranks"], 2);
}

TEST(Report, SaysWhatEachExchangeCost) {
  const Report report = report_of(two_gpu_trace().trace());
  ASSERT_EQ(report.exchanges.size(), 3U);
  const ExchangeSummary& push = report.exchanges[0];
  EXPECT_EQ(push.op, "push");
  EXPECT_EQ(push.bytes, 200U);
  EXPECT_DOUBLE_EQ(push.exchanges, 2) << "a counter on each GPU";
  EXPECT_DOUBLE_EQ(push.transit_ns, 50);
  EXPECT_DOUBLE_EQ(push.exposed_ns, 250);
  EXPECT_DOUBLE_EQ(push.hidden_ns, 180);
  EXPECT_EQ(report.exchanges[1].op, "reduce");
  EXPECT_DOUBLE_EQ(report.exchanges[1].transit_ns, 0) << "nothing waited for it";
  EXPECT_THAT(to_text(report),
              HasSubstr("push                      2      0.000     0.05     0.12     0.09"));
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["exchanges"][0]["exposed_ns"], 250);
}

TEST(Report, OfOneGpuSaysNothingOfALink) {
  const Report report = report_of(two_sm_trace().trace());
  EXPECT_THAT(to_text(report), ::testing::Not(HasSubstr(kLinkState)));
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_FALSE(json.contains("ranks"));
  EXPECT_FALSE(json.contains("exchanges"));
}

TEST(Report, WhatAHostsMemoryGivesIsNotKnown) {
  TraceBuilder b = two_sm_trace();
  b.trace().source = TraceSource::kHost;
  EXPECT_DOUBLE_EQ(report_of(b.trace()).limit_gb_per_s, 0);
}

TEST(Report, NamesTheLimitThatBinds) {
  TraceBuilder b = two_sm_trace();
  b.trace().program.machine.sm_gflop_per_s = 5;  // 10 operations per nanosecond for both SMs
  for (TraceInstruction& i : b.trace().program.instructions) i.operations = 1000;
  const Report few = report_of(b.trace());
  EXPECT_EQ(few.operations, 3000U) << "a token has three";
  EXPECT_DOUBLE_EQ(few.tflop_per_s, 3e-3);
  EXPECT_DOUBLE_EQ(few.limit_tflop_per_s, 10e-3);
  EXPECT_DOUBLE_EQ(few.compute_limit_ns, 300);
  EXPECT_THAT(to_text(few), HasSubstr("31.5 % of what memory allows"));
  for (TraceInstruction& i : b.trace().program.instructions) i.operations = 2000;
  EXPECT_THAT(to_text(report_of(b.trace())), HasSubstr("60.0 % of what arithmetic allows"));
}

TEST(TraceDiff, NamesWhatGotSlower) {
  TraceBuilder slower = two_sm_trace();
  // `last` of the first token computes 100 ns longer.
  Trace& t = slower.trace();
  for (const EventKind kind :
       {EventKind::kComputeEnd, EventKind::kStoreBegin, EventKind::kStored, EventKind::kSignalled})
    t.executions[1].set(kind, t.executions[1].time(kind) + 100);
  t.windows[0].end_ns += 100;
  t.windows[1].begin_ns += 100;
  const TraceDiff diff = diff_of(report_of(two_sm_trace().trace()), report_of(t));
  EXPECT_DOUBLE_EQ(diff.token.before_ns, 1000);
  EXPECT_DOUBLE_EQ(diff.token.after_ns, 1000) << "the median of 1100 and 900";
  const auto compute = std::find_if(diff.ops.begin(), diff.ops.end(),
                                    [](const Change& c) { return c.op == "last" && c.state == "compute"; });
  ASSERT_NE(compute, diff.ops.end());
  EXPECT_DOUBLE_EQ(compute->difference_ns(), 25) << "100 ns in one of two tokens on one of two SMs";
}

TEST(TraceDiff, OfATraceAndItselfIsNothing) {
  const Report report = report_of(two_sm_trace().trace());
  const TraceDiff diff = diff_of(report, report);
  EXPECT_DOUBLE_EQ(diff.slower(), 0);
  for (const Change& c : diff.ops) EXPECT_DOUBLE_EQ(c.difference_ns(), 0);
  EXPECT_THAT(to_text(diff), HasSubstr("token time"));
  EXPECT_EQ(nlohmann::json::parse(to_json(diff))["slower"], 0);
}

}  // namespace
}  // namespace serval::testing
