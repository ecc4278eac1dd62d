#include "models/llama/graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/error.h"

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
