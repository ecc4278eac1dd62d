#include "scheduler/report.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "models/llama/graph.h"
#include "scheduler/timing.h"
#include "tests/llama/configs.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

uint64_t total(const std::vector<uint64_t>& v) {
  return std::accumulate(v.begin(), v.end(), uint64_t{0});
}

TEST(Statistics, AddUp) {
  const LlamaConfig config = shortened_preset("llama-3.2-1b", 2);
  for (const uint32_t sms : kSmCounts) {
    const Graph graph = build_llama_graph(config, {.sms = sms});
    for (const Compilation& how : compilations_for(sms)) {
      const ProgramStatistics s = statistics_of(compile_as(graph, how), {});
      uint64_t bytes = 0, instructions = 0;
      for (const OpStatistics& op : s.ops) {
        bytes += op.bytes;
        instructions += op.instructions;
      }
      EXPECT_EQ(total(s.bytes_per_queue), bytes);
      EXPECT_EQ(s.instructions, instructions);
      EXPECT_EQ(s.instructions, graph.nodes.size());
      EXPECT_EQ(s.sms, sms);
      EXPECT_GE(s.makespan_us, s.critical_path_us);
      EXPECT_GE(s.imbalance, 0);
    }
  }
}

TEST(Statistics, CountEveryWeightOnce) {
  for (const std::string& name : preset_names()) {
    LlamaConfig config = preset_config(name);
    config.num_layers = 2;
    const Program p =
        compile_as(build_llama_graph(config, {.sms = 7}), {Policy::kRoundRobin, QueueKind::kPerSm, 7});
    EXPECT_EQ(statistics_of(p, {}).weight_bytes, static_cast<uint64_t>(config.weight_bytes())) << name;
  }
}

// A decode step reads each weight once; activations and KV add little.
TEST(Statistics, CountTheBytesOfADecodeStep) {
  const LlamaConfig config = shortened_preset("llama-3.2-1b", 4);
  const Program p =
      compile_as(build_llama_graph(config, {.sms = 7}), {Policy::kRoundRobin, QueueKind::kPerSm, 7});
  const auto weights = static_cast<uint64_t>(config.weight_bytes_per_token());
  const uint64_t bytes = total(statistics_of(p, {}).bytes_per_queue);
  EXPECT_GT(bytes, weights);
  EXPECT_LT(bytes, weights + weights / 50);
}

TEST(Statistics, PrintAsTextAndJson) {
  const Program p = compile_as(build_llama_graph(tiny_config(), {.sms = 2, .context = 600}),
                               {Policy::kList, QueueKind::kPerSm, 2});
  const ProgramStatistics s = statistics_of(p, {});
  EXPECT_THAT(to_text(s), HasSubstr("critical path"));
  const nlohmann::json json = nlohmann::json::parse(to_json(s));
  EXPECT_EQ(json.at("instructions"), s.instructions);
  EXPECT_EQ(json.at("bytes_per_queue").size(), 2U);
  // This program has none of the ops for programs of many rows (2 of attention, 2 of K splits), for models
  // that normalise heads (2), for several devices (6), for embeddings (1) and for inputs in e4m3 (1).
  constexpr size_t kOpsOfOthers = 14;
  EXPECT_EQ(json.at("ops").size(), kNumOpcodes - kOpsOfOthers);
}

TEST(Disassemble, PrintsEveryInstructionOnce) {
  const Program p = compile_as(build_llama_graph(tiny_config(), {.sms = 7, .context = 600}),
                               {Policy::kList, QueueKind::kPerSm, 7});
  const std::string text = disassemble(p);
  size_t at = 0;
  for (uint32_t q = 0; q < p.num_queues(); ++q) {
    for (const Instruction& i : p.queue(q)) {
      at = text.find(format_instruction(p, i), at);
      ASSERT_NE(at, std::string::npos);
    }
  }
}

TEST(Disassemble, PrintsAnUnknownOpcodeToo) {
  Instruction i;
  i.opcode = 999;
  EXPECT_THAT(format_instruction({}, i), HasSubstr("opcode=999"));
}

TEST(TimePass, FindsADeadlock) {
  Program p = compile_as(build_llama_graph(tiny_config(), {.sms = 2, .context = 600}),
                         {Policy::kList, QueueKind::kPerSm, 2});
  p.waits[p.instructions[p.queue_begin[1]].wait_begin].threshold = 1000;
  EXPECT_THROW(time_pass(p, {}, false), Error);
  EXPECT_THROW(time_pass(p, {}, true), Error);
}

TEST(TimePass, FollowsTheLongestChain) {
  const LlamaConfig config = tiny_config();
  const Program p = compile_as(build_llama_graph(config, {.sms = 7, .context = 600}),
                               {Policy::kList, QueueKind::kPerSm, 7});
  for (const bool unlimited : {false, true}) {
    const PassTiming timing = time_pass(p, {}, unlimited);
    ASSERT_FALSE(timing.critical_path.empty());
    EXPECT_EQ(p.instructions[timing.critical_path.back()].opcode, static_cast<uint16_t>(Opcode::kAdvance));
  }
  // With unlimited SMs: embed, six stages in each layer, lm_head, sample, advance.
  const PassTiming chain = time_pass(p, {}, true);
  EXPECT_EQ(chain.critical_path.size(), 1 + static_cast<size_t>(config.num_layers) * 6 + 3);
}

}  // namespace
}  // namespace serval::testing
