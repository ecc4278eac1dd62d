// Whole models in programs of tiles on one GPU: logits are close to the host's, and their bits do not depend
// on how a text is divided into passes.
#include <fmt/format.h>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/torch/teacher_forcing.h"
#include "instructions/kernels.h"
#include "tests/device/nearness.h"
#include "tests/llama/tiny_model.h"

namespace serval::testing {
namespace {

constexpr uint64_t kSeed = 3;
constexpr uint32_t kTokens = kPlannedLeafTokens + 52;  // attention has two leaves to merge
constexpr uint32_t kContext = kTokens;

struct Case {
  const char* name;
  LlamaConfig config;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};
LlamaConfig in_e4m3(LlamaConfig config, DType lm_head) {
  config.formats = {.layers = DType::kE4M3, .lm_head = lm_head};
  return config;
}
LlamaConfig in_int4(LlamaConfig config, int intermediate, DType layers, DType lm_head) {
  config.hidden_size = 256;
  config.intermediate_size = intermediate;
  config.formats = {.layers = layers, .lm_head = lm_head};
  return config;
}
std::vector<Case> cases() {
  LlamaConfig with_biases = tiny_parts_config();
  with_biases.qkv_bias = true;
  return {
      {"HeadsOf64", tiny_parts_config()},
      {"HeadsOf64WithBiases", with_biases},
      {"HeadsOf128", tiny_large_heads_config()},
      {"HeadsOf128WithNorms", tiny_head_norms_config()},
      {"HeadsOf64InE4M3", in_e4m3(tiny_parts_config(), DType::kE4M3)},
      {"HeadsOf128InE4M3", in_e4m3(tiny_large_heads_config(), DType::kBF16)},
      {"HeadsOf128WithNormsInE4M3", in_e4m3(tiny_head_norms_config(), DType::kE4M3)},
      {"HeadsOf64InInt4", in_int4(tiny_parts_config(), 2112, DType::kInt4G64, DType::kE4M3)},
      {"HeadsOf128InInt4", in_int4(tiny_large_heads_config(), 1408, DType::kInt4G128, DType::kInt4G32)},
      {"HeadsOf128WithNormsInInt4", in_int4(tiny_head_norms_config(), 1088, DType::kInt4G32, DType::kBF16)}};
}

class TiledModel : public ::testing::TestWithParam<Case> {
 protected:
  // Options for passes of up to `rows` rows.
  static BackendOptions options_of(uint32_t rows, bool batch_invariant = true) {
    BackendOptions options;
    options.limits.context = kContext;
    options.limits.rows = rows;
    options.limits.batch_invariant = batch_invariant;
    return options;
  }
  std::unique_ptr<Backend> device(const BackendOptions& options) const {
    return make_device_backend(config_, *make_random_weights(config_, kSeed), options);
  }
  std::vector<float> read(const BackendOptions& options) const {
    return teacher_force(*device(options), tokens_);
  }
  // Uses the host's programs of tiles with as many rows as the GPU's; the size of its passes does not affect
  // the results.
  std::vector<float> read_by_host() const {
    BackendOptions options = options_of(64);
    options.limits.tile_rows = widest_kernel(1).tile_rows;
    LlamaConfig in_bf16 = config_;
    in_bf16.formats = {};  // the backend rounds them
    return teacher_force(
        *make_host_backend(
            config_, std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16, kSeed)), options),
        tokens_);
  }

  const LlamaConfig config_ = GetParam().config;
  const std::vector<int32_t> tokens_ = random_tokens(config_, kTokens, 9);
};
INSTANTIATE_TEST_SUITE_P(Of, TiledModel, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// In one pass of nine tiles, in pieces of one tile and of a bit more, and in pieces for each size of tile:
// the kernels for prompts of up to 64 rows and of more.
TEST_P(TiledModel, HasTheHostsLogitsOfAPromptInOnePassAndInPieces) {
  const std::vector<float> in_one_pass = read(options_of(kTokens));
  Nearness nearness;
  nearness.add(in_one_pass, read_by_host());
  nearness.judge("a prompt");
  for (const uint32_t rows : {1U, 64U, 100U, 128U, 256U, 300U})  // a single row is multiplied as a vector
    EXPECT_TRUE(read(options_of(rows)) == in_one_pass) << "pieces of " << rows;
  EXPECT_TRUE(read(options_of(256, false)) == in_one_pass) << "where few rows have programs of vectors";
  for (const uint32_t sms : {3U, 7U}) {  // on three, gate and up have wide tiles if heads are of 128
    BackendOptions few = options_of(64);
    few.sms = sms;
    EXPECT_TRUE(read(few) == in_one_pass) << sms << " SMs";
  }
}

// Few sequences, as many as the kernel for few supports, and more than a tile of the other kernel. Each copy
// begins at another position, so each pass contains all of them.
TEST_P(TiledModel, HasTheSameLogitsWhereABatchDecodesTheText) {
  constexpr size_t kDecoded = 150;
  const std::vector<float> all = read(options_of(kTokens));
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  const std::vector<float> expected(all.begin(), all.begin() + static_cast<ptrdiff_t>(kDecoded * vocab));
  for (const uint32_t copies : {1U, 3U, 64U, 300U}) {
    SCOPED_TRACE(copies);
    BackendOptions options = options_of(copies);
    options.limits.context = kDecoded;
    options.limits.sequences = copies;
    const DecodedCopies decoded = decode_copies(*device(options), std::span(tokens_).first(kDecoded), copies);
    EXPECT_EQ(decoded.different, 0U);
    EXPECT_TRUE(decoded.logits == expected);
  }
}

// Models whose passes of more than 64 rows multiply e4m3 with e4m3.
LlamaConfig with_e4m3_inputs(LlamaConfig config, int intermediate, DType lm_head) {
  config = in_e4m3(std::move(config), lm_head);
  config.hidden_size = 256;
  config.intermediate_size = intermediate;
  config.formats.e4m3_inputs = true;
  return config;
}

double nmse(const std::vector<float>& found, const std::vector<float>& of) {
  Nearness nearness;
  nearness.add(found, of);
  return nearness.nmse();
}

// A sum of wgmma in e4m3 keeps some 13 bits, so that now and then an activation becomes the next code, a
// change of up to 1/8. So the GPU's logits are compared with those of activations in 16 bits: they must be
// about as near to these as the host's are. Pieces have more than 64 rows, too: a pass of fewer computes in
// fp16.
TEST(E4M3Inputs, ArriveAtThePromptsLogitsAsNearlyAsTheHostInOnePassAndInPieces) {
  constexpr uint32_t kPrompt = 384;
  constexpr double kMostOfHosts = 1.25;
  for (const LlamaConfig& config : {with_e4m3_inputs(tiny_parts_config(), 2176, DType::kE4M3),
                                    with_e4m3_inputs(tiny_large_heads_config(), 1152, DType::kBF16),
                                    with_e4m3_inputs(tiny_head_norms_config(), 1152, DType::kE4M3)}) {
    SCOPED_TRACE(config.name);
    ASSERT_TRUE(config.has_e4m3_inputs());
    const std::vector<int32_t> tokens = random_tokens(config, kPrompt, 9);
    const auto options_of = [](uint32_t rows) {
      BackendOptions options;
      options.limits.context = kPrompt;
      options.limits.rows = rows;
      return options;
    };
    const auto read = [&](uint32_t rows) {
      return teacher_force(
          *make_device_backend(config, *make_random_weights(config, kSeed), options_of(rows)), tokens);
    };
    BackendOptions of_host = options_of(kPrompt);
    of_host.limits.tile_rows = widest_kernel(1).tile_rows;
    LlamaConfig in_bf16 = config, in_16_bits = config;
    in_bf16.formats = {};  // the backend rounds them
    in_16_bits.formats.e4m3_inputs = false;
    const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16, kSeed));
    const auto read_by_host = [&](const LlamaConfig& of) {
      return teacher_force(*make_host_backend(of, weights, of_host), tokens);
    };
    const std::vector<float> in_one_pass = read(kPrompt), expected = read_by_host(in_16_bits);
    const double of_device = nmse(in_one_pass, expected), hosts = nmse(read_by_host(config), expected);
    fmt::print("[ figures  ] {}: NMSE against 16 bits {:.2g}, the host's {:.2g}\n", config.name, of_device,
               hosts);
    EXPECT_LE(of_device, kMostOfHosts * hosts);
    for (const uint32_t rows : {96U, 128U, 192U})
      EXPECT_TRUE(read(rows) == in_one_pass) << "pieces of " << rows;
  }
}

}  // namespace
}  // namespace serval::testing
