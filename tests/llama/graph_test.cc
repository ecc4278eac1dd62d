#include "models/llama/graph.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"
#include "vm/state/names.h"
#include "vm/state/output.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal(const GraphOptions& options) {
  try {
    build_llama_graph(tiny_config(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(LlamaGraph, RefusesMachinesAndContextsOutOfRange) {
  const auto longest = static_cast<uint32_t>(tiny_config().max_position);
  EXPECT_EQ(refusal({.sms = 1, .context = 1}), "");
  EXPECT_EQ(refusal({.sms = kMaxSms, .context = longest}), "");
  EXPECT_THAT(refusal({.sms = 0, .context = 1}), HasSubstr("sms: 0, limit 1 to 1024"));
  EXPECT_THAT(refusal({.sms = kMaxSms + 1, .context = 1}), HasSubstr("sms: 1025"));
  EXPECT_THAT(refusal({.sms = 1, .context = 0}), HasSubstr("context: 0 tokens, limit 1 to 1024"));
  EXPECT_THAT(refusal({.sms = 1, .context = longest + 1}), HasSubstr("context: 1025 tokens"));
}

TEST(LlamaGraph, RefusesRowsAndSequencesOutOfRange) {
  EXPECT_EQ(refusal({.context = 64, .rows = kLargestRows, .sequences = kLargestSequences}), "");
  EXPECT_THAT(refusal({.context = 64, .rows = 0}), HasSubstr("rows: 0, limit 1 to 8192"));
  EXPECT_THAT(refusal({.context = 64, .rows = kLargestRows + 1}), HasSubstr("rows: 8193"));
  EXPECT_THAT(refusal({.context = 64, .sequences = 0}), HasSubstr("sequences: 0, limit 1 to 1024"));
  EXPECT_THAT(refusal({.context = 64, .sequences = kLargestSequences + 1}), HasSubstr("sequences: 1025"));
}

// The kernels on a GPU sample one row an instance; more rows than that are dealt out over the SMs.
TEST(LlamaGraph, SamplesEveryRowThatMayWantLogitsOnce) {
  for (const uint32_t rows : {1U, 4U, 16U, 48U, 256U}) {
    const Graph graph = build_llama_graph(tiny_config(), {.sms = 20, .context = 64, .rows = rows});
    uint32_t next = 0, instances = 0;
    for (const Instruction& node : graph.nodes) {
      if (node.opcode != static_cast<uint16_t>(Opcode::kSample)) continue;
      EXPECT_EQ(node.as<Sample>().first_row, next);
      next += node.as<Sample>().num_rows;
      ++instances;
    }
    const uint32_t logit_rows = std::min(rows, kLeastLogitRows);  // there are 16 sequences
    EXPECT_EQ(next, logit_rows);
    EXPECT_EQ(instances, std::min(logit_rows, 20U));
  }
}

// Programs of up to 16 rows lay out partial results alike.
TEST(LlamaGraph, HasTensorsOfTheRowsThatAreAskedFor) {
  for (const auto& [rows, partial_rows] : {std::pair{1U, 16U}, {16U, 16U}, {48U, 48U}, {50U, 64U}}) {
    const Graph graph =
        build_llama_graph(tiny_config(), {.sms = 1, .context = 64, .rows = rows, .sequences = 3});
    const auto rows_of = [&](std::string_view name) {
      const auto found = std::ranges::find(graph.tensors, name, &Tensor::name);
      return found == graph.tensors.end() ? 0 : found->rows;
    };
    EXPECT_EQ(rows_of(llama_tensor::kResidual), rows);
    EXPECT_EQ(rows_of(state_tensor::kRows), rows);
    EXPECT_EQ(rows_of(state_tensor::kSlots), 3U);
    EXPECT_EQ(rows_of(state_tensor::kOutput), launch_passes(rows));
    EXPECT_EQ(rows_of(llama_tensor::kPartial) % partial_rows, 0U);
    EXPECT_EQ(graph.limits.rows, rows);
    EXPECT_EQ(graph.limits.sequences, 3U);
  }
}

// Behind the last attention, a prompt's inner tokens have nothing more to give.
TEST(LlamaGraph, ComputesTheLastLayerOnlyWhereLogitsAreWanted) {
  const LlamaConfig config = tiny_config();
  ASSERT_GT(config.num_layers, 1);
  for (const Instruction& node : build_llama_graph(config, {.sms = 2, .context = 64}).nodes) {
    const uint32_t wanted = node.tag + 1 == config.num_layers ? 1 : 0;
    if (node.opcode == static_cast<uint16_t>(Opcode::kGateUpSilu)) {
      EXPECT_EQ(node.as<GateUpSilu>().logits_only, wanted) << "layer " << node.tag;
    } else if (node.opcode == static_cast<uint16_t>(Opcode::kMatvecResidual)) {
      EXPECT_EQ(node.as<MatvecResidual>().logits_only, wanted) << "layer " << node.tag;
    }
  }
}

}  // namespace
}  // namespace serval::testing
