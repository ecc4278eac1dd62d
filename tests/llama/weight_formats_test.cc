// Models whose weights are kept in e4m3: programs, results on the host, and what is refused.
#include <cmath>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/compile/compile_model.h"
#include "instructions/isa.h"
#include "models/program_proof.h"
#include "tests/llama/decoder.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 128;
constexpr uint64_t kSeed = 5;
constexpr WeightFormats kLayers = {.layers = DType::kE4M3};
constexpr WeightFormats kAll = {.layers = DType::kE4M3, .lm_head = DType::kE4M3};
constexpr WeightFormats kHead = {.lm_head = DType::kE4M3};

LlamaConfig with(LlamaConfig config, const WeightFormats& formats) {
  config.formats = formats;
  return config;
}

std::vector<std::vector<float>> logits_of(const LlamaConfig& config) {
  LlamaConfig in_bf16 = config;
  in_bf16.formats = {};
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16, kSeed));
  return Decoder(config, weights, host_options(kContext, 4, 2)).force(random_tokens(config, 60, 7));
}

double relative_error(const std::vector<std::vector<float>>& found,
                      const std::vector<std::vector<float>>& of) {
  double square = 0, power = 0;
  for (size_t p = 0; p < of.size(); ++p) {
    for (size_t i = 0; i < of[p].size(); ++i) {
      const double off = double{found[p][i]} - of[p][i];
      square += off * off;
      power += double{of[p][i]} * of[p][i];
    }
  }
  return std::sqrt(square / power);
}

// Rounding a weight to e4m3 changes it by up to 1/16, on average by about 1/40. The errors of a sum's terms
// are independent, so a sum changes by about as much.
TEST(WeightFormats, E4M3ChangesLogitsByWhatItsRoundingCosts) {
  for (const LlamaConfig& config : {tiny_config(), tiny_untied_config(), tiny_parts_config()}) {
    SCOPED_TRACE(config.name);
    const auto in_bf16 = logits_of(config);
    for (const WeightFormats& formats : {kLayers, kHead, kAll}) {
      const double error = relative_error(logits_of(with(config, formats)), in_bf16);
      EXPECT_GT(error, 0.001);
      EXPECT_LT(error, 0.12);
    }
  }
}

TEST(WeightFormats, BitsDoNotDependOnNeighboursChunksAndPlacement) {
  const LlamaConfig config = with(tiny_config(), kAll);
  LlamaConfig in_bf16 = tiny_config();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16, kSeed));
  const std::vector<Sequence> sequences = {{random_tokens(config, 37, 1), 6},
                                           {random_tokens(config, 5, 2), 9}};
  Decoder four(config, weights, host_options(kContext, 4, 2));
  const std::vector<Answer> together = four.answer(sequences);
  EXPECT_EQ(four.answer({sequences[0]}), std::vector{together[0]});
  EXPECT_EQ(four.answer(sequences, {.chunk = 3}), together);
  EXPECT_EQ(Decoder(config, weights, host_options(kContext, 4, 1)).answer(sequences), together);
}

ValidProgram program_of(const LlamaConfig& config) {
  ProgramLimits limits;
  limits.context = kContext;
  return compile_model(config, host_machine(4), limits);
}

TEST(WeightFormats, ATiedHeadOfAnotherTypeIsAMatrixOfItsOwn) {
  const ValidProgram program = program_of(with(tiny_config(), kAll));
  const auto dtype = [&](const char* name) {
    return program->tensors[program->find_tensor(name)->index].dtype;
  };
  EXPECT_EQ(dtype("model.embed_tokens.weight"), DType::kBF16);
  EXPECT_EQ(dtype("lm_head.weight"), DType::kE4M3);
  EXPECT_EQ(dtype("weighted"), DType::kF16);
  EXPECT_EQ(program_of(tiny_config())->find_tensor("lm_head.weight"), std::nullopt);
}

TEST(WeightFormats, AProgramComputesTheModelOfItsFormatsOnly) {
  const LlamaConfig in_e4m3 = with(tiny_config(), kLayers);
  const ValidProgram program = program_of(in_e4m3);
  EXPECT_EQ(difference_from(*program, in_e4m3), std::nullopt);
  EXPECT_ANY_THROW(require_model(*program, tiny_config()));
  EXPECT_ANY_THROW(require_model(*program, with(tiny_config(), kAll)));
}

TEST(WeightFormats, OperandsOfTypesThatDoNotFitAreRefused) {
  Program program = *program_of(with(tiny_config(), kLayers));
  const auto refusal = [&](const char* tensor, DType dtype) {
    Program changed = program;
    changed.tensors[changed.find_tensor(tensor)->index].dtype = dtype;
    for (const Instruction& i : changed.instructions) {
      if (std::string found = check_instruction(changed, i); !found.empty()) return found;
    }
    return std::string();
  };
  EXPECT_THAT(refusal("model.layers.1.mlp.up_proj.weight", DType::kBF16),
              HasSubstr("'model.layers.1.mlp.up_proj.weight' is bf16, expected e4m3"));
  EXPECT_THAT(refusal("weighted", DType::kBF16),
              HasSubstr("weighted: tensor 'weighted' is bf16, expected f16, since "
                        "'model.layers.0.self_attn.q_proj.weight' is e4m3"));
  EXPECT_THAT(refusal("model.layers.0.mlp.down_proj.weight", DType::kBF16), HasSubstr("expected bf16"));
  EXPECT_THAT(refusal("model.embed_tokens.weight", DType::kE4M3), HasSubstr("embed"));
  EXPECT_THAT(refusal("model.layers.0.input_layernorm.weight", DType::kE4M3), HasSubstr("norm"));
}

TEST(WeightFormats, SeveralGpusAndTileOrderAreRefused) {
  for (const GraphOptions& options :
       {GraphOptions{.ranks = 2}, GraphOptions{.rows = 1, .tile_order = true}}) {
    try {
      with(tiny_shared_config(), kLayers).graph(options);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("weights in e4m3: supported on 1 GPU"));
    }
  }
}

}  // namespace
}  // namespace serval::testing
