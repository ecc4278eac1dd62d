// Models shared by ranks, on the host interpreter: for a given number of ranks, a sequence's bits do not
// depend on how it is computed, and all numbers of ranks compute the same model.
#include "models/ranks.h"

#include <cmath>
#include <fmt/format.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/common/slices.h"
#include "models/llama/graph.h"
#include "tests/llama/configs.h"
#include "tests/llama/decoder.h"
#include "tests/llama/stop.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 320;  // two attention leaves

std::shared_ptr<const ModelWeights> weights_of(const LlamaConfig& config) {
  return std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
}

BackendOptions options_of(uint32_t ranks, uint32_t sms, uint32_t threads = 1) {
  BackendOptions options = host_options(kContext, sms, threads);
  options.limits.ranks = ranks;
  return options;
}

std::vector<Sequence> two_sequences(const LlamaConfig& config) {
  return {{random_tokens(config, 57, 1), 8, 0.9F, 1.2F, 0}, {random_tokens(config, 250, 2), 8, 0, 1, 1}};
}

// With 8 KV heads each rank has its own; with 2, pairs of the four ranks share each.
LlamaConfig config_of(uint32_t ranks) {
  return tiny_shared_config(ranks == 4 ? 2 : 8);
}

// With this many columns, a rank's projections have two K splits.
constexpr int kColumnsOfParts = 4096;

class Ranks : public ::testing::TestWithParam<uint32_t> {
 protected:
  // A configuration with `hidden` residual columns, for passes of tiles of rows.
  LlamaConfig config_of_tiles(int hidden) const {
    LlamaConfig config = config_;
    config.hidden_size = hidden;
    config.intermediate_size = 512;
    if (hidden == kColumnsOfParts) {
      config.num_layers = 1;
      config.qkv_bias = true;
    }
    return config;
  }
  Decoder decoder(const BackendOptions& options) const { return {config_, weights_, options}; }
  std::vector<Answer> expected() const {
    return decoder(options_of(GetParam(), 1)).answer(two_sequences(config_));
  }

  const LlamaConfig config_ = config_of(GetParam());
  const std::shared_ptr<const ModelWeights> weights_ = weights_of(config_);
};

TEST_P(Ranks, SmsPolicyAndThreadsDoNotShow) {
  const std::vector<Answer> answers = expected();
  for (const uint32_t threads : {1U, 2U, 5U}) {
    for (const uint32_t sms : {2U, 7U}) {
      for (const Policy policy : kPolicies) {
        BackendOptions options = options_of(GetParam(), sms, threads);
        options.schedule.policy = policy;
        SCOPED_TRACE(fmt::format("{} SMs, {} threads, {}", sms, threads, name_of(policy)));
        ASSERT_EQ(decoder(options).answer(two_sequences(config_)), answers);
      }
    }
  }
}

TEST_P(Ranks, ChunksLaunchesAndNeighboursDoNotShow) {
  const std::vector<Answer> answers = expected();
  Decoder one = decoder(options_of(GetParam(), 3, 2));
  for (const uint32_t chunk : {1U, 7U})
    EXPECT_EQ(one.answer(two_sequences(config_), {.chunk = chunk}), answers);
  for (size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(one.answer({two_sequences(config_)[i]}).front(), answers[i]) << "alone";
  std::vector<Answer> long_launches = one.answer(two_sequences(config_), {.passes = 6});
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(long_launches[i].tokens, answers[i].tokens);
}

TEST_P(Ranks, RunCheckedAndInterleavedToTheSameBits) {
  const std::vector<Sequence> sequence = {{random_tokens(config_, 20, 1), 4, 0.9F, 1, 0}};
  const std::vector<Answer> answers = decoder(options_of(GetParam(), 2)).answer(sequence);
  for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
    BackendOptions options = options_of(GetParam(), 2);
    options.interleaving = seed;
    options.checked = true;
    EXPECT_EQ(decoder(options).answer(sequence), answers) << seed;
  }
}

TEST_P(Ranks, StopTogetherBetweenPasses) {
  const auto backend = make_host_backend(config_, weights_, options_of(GetParam(), 3, 2));
  expect_to_stop_between_passes(*backend, kContext);
}

// Sums in another order: the same except for rounding.
void expect_close(const LlamaConfig& config, const BackendOptions& shared) {
  const auto weights = weights_of(config);
  const std::vector<int32_t> tokens = random_tokens(config, 80, 1);
  const auto of_ranks = Decoder(config, weights, shared).force(tokens);
  BackendOptions alone = shared;
  alone.limits.ranks = 1;
  const auto of_one = Decoder(config, weights, alone).force(tokens);
  double worst = 0;
  for (size_t t = 0; t < of_one.size(); ++t) {
    for (size_t i = 0; i < of_one[t].size(); ++i)
      worst = std::max(worst, std::abs(double{of_ranks[t][i]} - of_one[t][i]));
  }
  EXPECT_LT(worst, 0.05);
  EXPECT_GT(worst, 0) << "nothing was added in another order";
}

TEST_P(Ranks, ComputeTheModelThatOneRankDoes) {
  expect_close(config_, options_of(GetParam(), 3, 2));
}

TEST_P(Ranks, ComputeModelsWithAnLmHeadBiasesAndNormsOfTheirOwn) {
  LlamaConfig config = config_;
  config.tie_word_embeddings = false;
  config.qkv_bias = true;
  expect_close(config, options_of(GetParam(), 3));
  config.qkv_bias = false;
  config.qk_norm = true;
  expect_close(config, options_of(GetParam(), 3));
}

TEST_P(Ranks, ComputeModelsOfFewerUnitsOfTokensThanRanks) {
  LlamaConfig config = config_;
  config.vocab_size = 13;
  for (const bool tied : {true, false}) {
    config.tie_word_embeddings = tied;
    expect_close(config, options_of(GetParam(), 3));
  }
}

TEST_P(Ranks, ComputeTilesOfRows) {
  BackendOptions options = options_of(GetParam(), 3);
  options.limits.rows = 80;
  options.limits.tile_rows = 16;
  for (const int hidden : {512, kColumnsOfParts}) expect_close(config_of_tiles(hidden), options);
}

TEST_P(Ranks, PolicyAndThreadsDoNotShowInTilesOfRows) {
  for (const int hidden : {512, kColumnsOfParts}) {
    const LlamaConfig config = config_of_tiles(hidden);
    const auto weights = weights_of(config);
    const std::vector<Sequence> sequence = {{random_tokens(config, 70, 1), 3, 0.9F, 1, 0}};
    const auto answer = [&](uint32_t sms, uint32_t threads, Policy policy) {
      BackendOptions options = options_of(GetParam(), sms, threads);
      options.limits.rows = 48;
      options.limits.tile_rows = 16;
      options.schedule.policy = policy;
      return Decoder(config, weights, options).answer(sequence, {.chunk = 48});
    };
    const std::vector<Answer> expected = answer(1, 1, Policy::kRoundRobin);
    for (const Policy policy : kPolicies) {
      for (const uint32_t threads : {1U, 3U})
        EXPECT_EQ(answer(3, threads, policy), expected) << threads << ", " << name_of(policy);
    }
  }
}

// With K splits too, the rows of a pass and the tokens in it do not affect the bits.
TEST_P(Ranks, RowsDoNotShowInPartsOfColumns) {
  const LlamaConfig config = config_of_tiles(kColumnsOfParts);
  const auto weights = weights_of(config);
  const std::vector<Sequence> sequence = {{random_tokens(config, 70, 1), 3, 0.9F, 1, 0}};
  const auto answer = [&](uint32_t rows, uint32_t chunk) {
    BackendOptions options = options_of(GetParam(), 7);
    options.limits.rows = rows;
    options.limits.tile_rows = 16;
    return Decoder(config, weights, options).answer(sequence, {.chunk = chunk});
  };
  const std::vector<Answer> expected = answer(80, 70);
  for (const uint32_t chunk : {70U, 33U, 5U}) EXPECT_EQ(answer(100, chunk), expected) << chunk;
}

INSTANTIATE_TEST_SUITE_P(Numbers, Ranks, ::testing::Values(2, 4, 8));

// ---- parts

TEST(RankParts, OfAWeightCoverItOnce) {
  for (const char* preset : {"llama-3.2-1b", "llama-3.1-70b", "qwen3-8b"}) {
    const LlamaConfig config = preset_config(preset);
    for (const WeightSpec& spec : config.weights()) {
      for (const uint32_t ranks : {2U, 4U, 8U}) {
        int64_t row = 0, col = 0;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          const WeightPart part = part_of_rank(spec, rank, ranks);
          if (spec.split == WeightSplit::kNone) {
            EXPECT_TRUE(part.is_whole(spec)) << spec.name;
            continue;
          }
          const bool rows = spec.split == WeightSplit::kRows;
          EXPECT_EQ(rows ? part.first_row : part.first_col, rows ? row : col) << spec.name;
          (rows ? row : col) += rows ? part.rows : part.cols;
          EXPECT_EQ(rows ? part.cols : part.rows, rows ? spec.cols : spec.rows);
        }
        EXPECT_EQ(row, spec.split == WeightSplit::kRows ? spec.rows : 0) << spec.name;
        EXPECT_EQ(col, spec.split == WeightSplit::kCols ? spec.cols : 0) << spec.name;
      }
    }
  }
}

TEST(RankParts, OfFewerHeadsThanRanksAreOnSeveral) {
  const WeightSpec keys{.name = "k", .rows = 2 * 64, .cols = 32, .split = WeightSplit::kRows, .piece = 64};
  for (uint32_t rank = 0; rank < 8; ++rank) {
    const WeightPart part = part_of_rank(keys, rank, 8);
    EXPECT_EQ(part.first_row, rank < 4 ? 0 : 64);
    EXPECT_EQ(part.rows, 64);
  }
}

std::string refusal(const LlamaConfig& config, uint32_t ranks) {
  try {
    check_ranks(config, ranks);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    return e.what();
  }
  return "";
}

TEST(RankParts, AreRefusedWhereTheyWouldNotBeEqual) {
  const LlamaConfig config = tiny_shared_config();
  for (const uint32_t ranks : {1U, 2U, 4U, 8U}) EXPECT_EQ(refusal(config, ranks), "");
  EXPECT_THAT(refusal(config, 0), HasSubstr("gpus: 0; limit: 1 to 8"));
  EXPECT_THAT(refusal(config, 9), HasSubstr("gpus: 9; limit: 1 to 8"));
  LlamaConfig heads = config;
  heads.num_heads = heads.num_kv_heads = 6;
  EXPECT_THAT(refusal(heads, 4), HasSubstr("num_attention_heads: 6; expected a multiple of 4"));
  heads.num_heads = 24;
  EXPECT_THAT(refusal(heads, 4), HasSubstr("num_key_value_heads: 6; expected a multiple or a divisor of 4"));
  LlamaConfig columns = config;
  columns.hidden_size = 96;
  EXPECT_THAT(refusal(columns, 8), HasSubstr("hidden_size: 96; expected a multiple of 8 × 16"));
  columns = config;
  columns.intermediate_size = 176;
  EXPECT_THAT(refusal(columns, 2), HasSubstr("intermediate_size: 176; expected a multiple of 2 × 16"));
  LlamaConfig vocabulary = config;
  vocabulary.vocab_size = 17;
  EXPECT_THAT(refusal(vocabulary, 4),
              HasSubstr("vocab_size: 17; expected a size that leaves none of 4 GPUs a single token"));
}

// Ranks may hold overlapping parts of an embedding or LM head, but each token is computed by exactly one
// rank.
TEST(RankParts, OfAVocabularyHaveEachTokenOnce) {
  for (const uint32_t vocab : {1U, 7U, 13U, 64U, 203U, 128256U}) {
    const WeightSpec table{
        .name = "e", .rows = vocab, .cols = 32, .split = WeightSplit::kRows, .piece = kUnitRows};
    for (const uint32_t ranks : {1U, 2U, 4U, 8U}) {
      uint64_t next = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const VocabularyShare own = vocabulary_share(vocab, rank, ranks);
        const WeightPart part = part_of_rank(table, rank, ranks);
        EXPECT_EQ(own.first, next) << vocab << " on " << ranks;
        EXPECT_EQ(own.first, static_cast<uint64_t>(part.first_row));
        EXPECT_TRUE(own.count == static_cast<uint64_t>(part.rows) || own.count == 0);
        next += own.count;
      }
      EXPECT_EQ(next, vocab) << ranks;
    }
  }
}

TEST(RankParts, HoldTheVocabularyOnceAndForATiedLmHeadToo) {
  for (const char* preset : {"llama-3.2-1b", "llama-3.1-70b"}) {
    const LlamaConfig config = preset_config(preset);
    int64_t norms = 0;
    for (const WeightSpec& spec : config.weights())
      norms += spec.kind == WeightKind::kNorm ? spec.bytes() : 0;
    int64_t all = 0;
    for (uint32_t rank = 0; rank < 4; ++rank) all += weight_bytes_of_rank(config, rank, 4);
    EXPECT_EQ(all, config.weight_bytes() + 3 * norms) << preset;
  }
}

// ---- the graph

TEST(RankGraph, SamplesOnTheFirstRankAlone) {
  const Graph graph = build_llama_graph(tiny_shared_config(), {.sms = 3, .context = 200, .ranks = 4});
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const auto opcode = static_cast<Opcode>(graph.nodes[n].opcode);
    const bool samples =
        opcode == Opcode::kSample || opcode == Opcode::kAdvance || opcode == Opcode::kPushState;
    EXPECT_TRUE(!samples || graph.device_of_node(n) == 0) << op_name(graph.nodes[n].opcode);
  }
  for (const Tensor& t : graph.tensors) {
    const bool sampled = t.name == model_tensor::kLogits || t.name == state_tensor::kSlots;
    EXPECT_TRUE(!sampled || t.device == 0) << t.name;
  }
}

TEST(RankGraph, LooksUpATokenWhereItsRowIs) {
  const Graph graph = build_llama_graph(tiny_shared_config(), {.sms = 3, .context = 200, .ranks = 4});
  uint32_t pushing = 0, beginning = 0;
  for (const Instruction& i : graph.nodes) {
    EXPECT_NE(i.opcode, static_cast<uint16_t>(Opcode::kEmbed));
    pushing += i.opcode == static_cast<uint16_t>(Opcode::kEmbedPush) ? 1 : 0;
    if (i.opcode == static_cast<uint16_t>(Opcode::kReduceResidual))
      beginning += i.as<ReduceResidual>().begins;
  }
  EXPECT_GE(pushing, 4U);
  EXPECT_GE(beginning, 4U);
}

TEST(RankGraph, OfOneRankExchangesNothing) {
  const Graph graph = build_llama_graph(tiny_shared_config(), {.sms = 3, .context = 200});
  for (const Instruction& i : graph.nodes) {
    EXPECT_LT(i.opcode, static_cast<uint16_t>(Opcode::kMatvecPush));
  }
  for (const Tensor& t : graph.tensors) EXPECT_NE(t.name, llama_tensor::kExchange);
}

}  // namespace
}  // namespace serval::testing
