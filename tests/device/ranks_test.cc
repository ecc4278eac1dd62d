// Models that are shared by several GPUs, or by several ranks of one GPU: logits are close to the host's, and
// their bits do not depend on how they are computed.
#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/device/nearness.h"
#include "tests/llama/decoder.h"
#include "tests/llama/stop.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 320;  // two attention leaves
constexpr uint64_t kSeed = 3;

// With this many columns, programs of tiles cut a rank's projections into two K splits.
constexpr int kColumnsOfParts = 4096;

// Heads of 64 channels, which the kernels of tiles' attention supports.
LlamaConfig config_of(uint32_t ranks, int hidden = 512) {
  LlamaConfig config = tiny_shared_config(ranks == 4 ? 2 : 8);
  config.head_dim = 64;
  config.hidden_size = hidden;
  config.qkv_bias = hidden == kColumnsOfParts;
  config.intermediate_size = 1024;
  return config;
}

// Options for passes of up to `rows` rows: above 16, some programs multiply tiles of rows.
BackendOptions options_of(uint32_t ranks, uint32_t rows = 0, uint32_t sms = 0) {
  BackendOptions options;
  options.limits.context = kContext;
  options.limits.rows = rows;
  options.limits.ranks = ranks;
  options.gpus = gpus_of_ranks(ranks);
  options.sms = sms;
  options.stall_timeout_s = 5;
  return options;
}

Decoder on_gpus(const BackendOptions& options, int hidden = 512) {
  const LlamaConfig config = config_of(options.limits.ranks, hidden);
  return Decoder(make_device_backend(config, *make_random_weights(config, kSeed), options));
}
Decoder on_host(BackendOptions options, int hidden = 512) {
  const LlamaConfig config = config_of(options.limits.ranks, hidden);
  options.sms = 2;
  return {config, std::make_shared<const ModelWeights>(ModelWeights::random(config, kSeed)), options};
}

std::vector<Sequence> sequences_of(uint32_t ranks) {
  const LlamaConfig config = config_of(ranks);
  return {{random_tokens(config, 57, 1), 14, 0.0F, 1.0F, 0},
          {random_tokens(config, 250, 2), 14, 0.9F, 1.2F, 1}};
}

// Compares the answers' logits as long as the tokens are equal.
void expect_near(const std::vector<Answer>& found, const std::vector<Answer>& host) {
  ASSERT_EQ(found.size(), host.size());
  Nearness nearness;
  size_t compared = 0;
  for (size_t s = 0; s < host.size(); ++s) {
    for (size_t t = 0;
         t < host[s].logits.size() && (t == 0 || found[s].tokens[t - 1] == host[s].tokens[t - 1]); ++t) {
      nearness.add(found[s].logits[t], host[s].logits[t]);
      ++compared;
    }
  }
  EXPECT_GT(compared, host.size());
  nearness.judge();
}

// Ranks on GPUs; rows of a pass; prompt tokens in a pass; columns of the residual.
struct Case {
  uint32_t ranks, rows, chunk;
  int hidden = 512;
};
class RanksOnGpus : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<Answer> answer(const BackendOptions& options) const {
    return on_gpus(options, GetParam().hidden).answer(sequences_of(ranks), {.chunk = GetParam().chunk});
  }
  const uint32_t ranks = GetParam().ranks, rows = GetParam().rows;
};
INSTANTIATE_TEST_SUITE_P(Of, RanksOnGpus,
                         ::testing::Values(Case{2, 0, 16}, Case{4, 0, 16}, Case{8, 0, 16}, Case{2, 64, 48},
                                           Case{4, 64, 48}, Case{2, 300, 250},
                                           Case{2, 64, 48, kColumnsOfParts},
                                           Case{4, 300, 250, kColumnsOfParts}),
                         [](const auto& test) {
                           return fmt::format("{}WithPassesOf{}{}", test.param.ranks, test.param.chunk,
                                              test.param.hidden == kColumnsOfParts ? "InPartsOfColumns" : "");
                         });

TEST_P(RanksOnGpus, StopTogetherBetweenPasses) {
  const LlamaConfig config = config_of(ranks, GetParam().hidden);
  const auto backend =
      make_device_backend(config, *make_random_weights(config, kSeed), options_of(ranks, rows));
  expect_to_stop_between_passes(*backend, kContext);
}

TEST_P(RanksOnGpus, HaveTheHostsLogits) {
  const BackendOptions options = options_of(ranks, rows);
  expect_near(answer(options),
              on_host(options, GetParam().hidden).answer(sequences_of(ranks), {.chunk = GetParam().chunk}));
}

TEST_P(RanksOnGpus, RunAgainToTheSameBits) {
  const std::vector<Answer> expected = answer(options_of(ranks, rows));
  for (int run = 1; run < 3; ++run) EXPECT_EQ(answer(options_of(ranks, rows)), expected);
  EXPECT_EQ(answer(options_of(ranks, rows, 7)), expected) << "on 7 SMs each";
}

TEST(RanksOnGpusOfFewRows, ChunksAndLaunchesDoNotShow) {
  Decoder decoder = on_gpus(options_of(2));
  const std::vector<Answer> expected = decoder.answer(sequences_of(2), {.passes = 13});
  for (const uint32_t chunk : {1U, 5U})
    EXPECT_EQ(decoder.answer(sequences_of(2), {.chunk = chunk, .passes = 13}), expected) << chunk;
  EXPECT_EQ(decoder.answer(sequences_of(2), {.passes = 5}), expected);
}

std::string refusal_of(const BackendOptions& options) {
  try {
    on_gpus(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RanksOnGpusThatAreNotThere, AreRefusedByName) {
  BackendOptions options = options_of(2);
  options.gpus = {0, 99};
  EXPECT_THAT(refusal_of(options), HasSubstr("no GPU 99; this machine has"));
}

}  // namespace
}  // namespace serval::testing
