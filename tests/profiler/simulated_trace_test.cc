// Simulated traces of whole models: properties that must hold for any trace, at full size.
#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "profiler/analysis/critical_path.h"
#include "profiler/chrome/chrome_trace.h"
#include "profiler/report/report.h"
#include "profiler/report/savings.h"
#include "profiler/sim/simulate.h"
#include "profiler/trace/align_ranks.h"
#include "profiler/trace/trim.h"
#include "scheduler/compile.h"
#include "tests/llama/configs.h"
#include "tests/profiler/sound_trace.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 256, kCached = 128;

Program llama_1b_on(uint32_t sms, uint32_t ranks) {
  Machine machine = h200_machine();
  machine.sms = sms;
  const Graph graph =
      build_llama_graph(preset_config("llama-3.2-1b"), {.sms = sms, .context = kContext, .ranks = ranks});
  return compile(graph, machine,
                 {.policy = Policy::kRoundRobin, .queue_kind = QueueKind::kPerSm, .context = {}});
}

const Program& llama_1b() {
  static const Program program = llama_1b_on(h200_machine().sms, 1);
  return program;
}

const Trace& token_of_1b() {
  static const Trace trace =
      last_tokens(simulate(llama_1b(), decode_launch(1, kCached, 2), h200_sim_parameters()), 1);
  return trace;
}

TEST(TraceOf1B, ChecksOutAndStatesOfEverySmAndRoleAddUpToTheToken) {
  expect_sound(token_of_1b(), 1);
  EXPECT_EQ(token_of_1b().program.machine.sms, 132U);
}

TEST(TraceOf1B, ReadsEachWeightOnce) {
  expect_each_weight_to_be_read_once(token_of_1b(), llama_1b());
}

TEST(TraceOf1B, ItsCriticalPathIsTheToken) {
  const Trace& trace = token_of_1b();
  const std::vector<PathStep> path = critical_path(trace, edges_of(trace), trace.windows.front());
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().begin_ns, trace.windows.front().begin_ns);
  EXPECT_EQ(path.back().end_ns, trace.windows.front().end_ns);
  for (size_t s = 1; s < path.size(); ++s) EXPECT_EQ(path[s].begin_ns, path[s - 1].end_ns);
}

TEST(TraceOf1B, ItsFileIsSmallEnoughAndCanBeReadBack) {
  constexpr size_t kLimit = 60'000'000;
  const std::string text = to_chrome_json(token_of_1b());
  EXPECT_LT(text.size(), kLimit);
  EXPECT_TRUE(to_chrome_json(from_chrome_json(text, "1b.json")) == text);
}

// llama-3.2-1b on two GPUs of 33 SMs each.
const Program& llama_1b_of_two_gpus() {
  static const Program program = llama_1b_on(33, 2);
  return program;
}

const Trace& token_of_two_gpus() {
  static const Trace trace =
      last_tokens(simulate(llama_1b_of_two_gpus(), decode_launch(1, kCached, 2), h200_sim_parameters()), 1);
  return trace;
}

TEST(TraceOfTwoGpus, KnowsItsRanksAndCanBeReadBack) {
  const Trace& trace = token_of_two_gpus();
  EXPECT_EQ(trace.program.ranks, 2U);
  EXPECT_EQ(trace.program.sms_of_rank(), 33U);
  const std::string text = to_chrome_json(trace);
  EXPECT_TRUE(to_chrome_json(from_chrome_json(text, "1b.json")) == text);
}

TEST(TraceOfTwoGpus, PushesEachPartialSumAndEachResultToTheOtherGpuOnce) {
  const TraceProgram& program = token_of_two_gpus().program;
  std::map<std::string, uint64_t> bytes;
  for (const TracePush& push : program.pushes)
    bytes[program.ops[program.instructions[push.instruction].op]] += push.bytes;
  constexpr uint64_t kHidden = 2048, kExchanges = 2 * 16, kEmbeddings = 1, kVocabulary = 128256, kUnit = 8;
  // Each GPU's half of the columns, which the other one sums: fp32.
  EXPECT_EQ(bytes["matvec_push"], kExchanges * kHidden * 4);
  // The token's embedding, or zeros instead.
  EXPECT_EQ(bytes["embed_push"], kEmbeddings * kHidden * 4);
  // Results in bf16, and a sum of squares for each 8.
  EXPECT_EQ(bytes["reduce_residual"], (kExchanges + kEmbeddings) * (kHidden * 2 + kHidden / kUnit * 4));
  // GPU 1's logits, and for each 8 of them the largest and the sum of exponentials.
  EXPECT_EQ(bytes["lm_head"], kVocabulary / 2 * 4 + kVocabulary / 2 / kUnit * 8);
}

TEST(TraceOfTwoGpus, ExchangesAreOfDataAndTwiceALayerAndOnceBefore) {
  const Report report = report_of(token_of_two_gpus());
  std::map<std::string, double> exchanges;
  for (const ExchangeSummary& e : report.exchanges) exchanges[e.op] = e.exchanges;
  // Every GPU has one counter for all results of a sum, but several for partial sums.
  EXPECT_DOUBLE_EQ(exchanges["reduce_residual"], (2 * 16 + 1) * 2);
  EXPECT_GE(exchanges["matvec_push"], 2 * 16 * 2);
}

TEST(TraceOfTwoGpus, ItsCriticalPathIsTheTokenAndCrossesTheLink) {
  const Trace& trace = token_of_two_gpus();
  const std::vector<PathStep> path = critical_path(trace, edges_of(trace), trace.windows.front());
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().begin_ns, trace.windows.front().begin_ns);
  EXPECT_EQ(path.back().end_ns, trace.windows.front().end_ns);
  EXPECT_GT(std::count_if(path.begin(), path.end(), [](const PathStep& s) { return s.over_link; }), 0);
}

TEST(TraceOfTwoGpus, ClocksThatAreApartAreBroughtWithinWhatIsStated) {
  const Trace& trace = token_of_two_gpus();
  Trace moved = trace;
  for (Execution& x : moved.executions) {
    for (int64_t& ns : x.at) {
      if (moved.program.rank_of(x.sm) == 1 && ns != kNever)
        ns += 250'000 + static_cast<int64_t>(0.001 * static_cast<double>(ns));
    }
  }
  const RankClocks clocks = rank_clocks(moved);
  ASSERT_TRUE(clocks.of_rank[1]);
  EXPECT_LT(clocks.of_rank[1]->within_ns, 5'000);
  correct_ranks(clocks, moved);
  for (size_t e = 0; e < trace.executions.size(); ++e) {
    ASSERT_NEAR(static_cast<double>(moved.executions[e].time(EventKind::kSignalled)),
                static_cast<double>(trace.executions[e].time(EventKind::kSignalled)),
                clocks.of_rank[1]->within_ns + 1)
        << e;
  }
}

TEST(Savings, NameChangesThatSaveTimeLargestFirst) {
  const std::vector<Saving> savings =
      predicted_savings(llama_1b(), decode_launch(1, kCached, 2), h200_sim_parameters(), 5);
  ASSERT_EQ(savings.size(), 5U);
  for (const Saving& s : savings) EXPECT_GT(s.saved_ns, 0) << s.change;
  EXPECT_TRUE(std::is_sorted(savings.begin(), savings.end(),
                             [](const Saving& a, const Saving& b) { return a.saved_ns > b.saved_ns; }));
}

TEST(Savings, AreOfTheLinkToo) {
  constexpr size_t kAll = 100;
  const std::vector<Saving> savings =
      predicted_savings(llama_1b_of_two_gpus(), decode_launch(1, kCached, 1), h200_sim_parameters(), kAll);
  for (const char* change : {"the link in half the time", "twice the link's bandwidth"})
    EXPECT_NE(std::ranges::find(savings, change, &Saving::change), savings.end()) << change;
}

}  // namespace
}  // namespace serval::testing
