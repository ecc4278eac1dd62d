// Models whose weights are kept in e4m3: programs, results on the host, and what is refused.
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/compile/compile_model.h"
#include "instructions/isa.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/program_proof.h"
#include "tests/llama/decoder.h"
#include "tests/llama/reference_llama.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/base/error.h"
#include "vm/layout/e4m3_rows.h"

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

// A checkpoint that stores random weights, rounded to e4m3 as quantise_rows() does.
class E4M3Weights final : public WeightSource {
 public:
  explicit E4M3Weights(const Model& model)
      : WeightSource(model), random_(make_random_weights(*model.with_formats({}), kSeed)) {}

  std::string name() const override { return "e4m3"; }
  bool keeps_e4m3(size_t tensor) const override { return specs()[tensor].dtype == DType::kE4M3; }
  void read_e4m3(size_t tensor, int64_t first_row, int64_t row_count, uint8_t* to) const override {
    const int64_t cols = specs()[tensor].cols;
    std::vector<uint16_t> rows(static_cast<size_t>(row_count * cols));
    random_->read(tensor, first_row * cols, rows);
    quantise_rows(rows.data(), row_count, cols, to);
  }
  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    random_->read(tensor, first, out);
  }

 private:
  const std::shared_ptr<const WeightSource> random_;
};

std::shared_ptr<const ModelWeights> stored_in_e4m3(const LlamaConfig& config) {
  return std::make_shared<const ModelWeights>(
      ModelWeights::materialise(std::make_shared<const E4M3Weights>(config)));
}

// The values of the matrices that `stored` has in e4m3, rounded to bf16: as a run in bf16 has them.
class DequantisedWeights final : public WeightSource {
 public:
  DequantisedWeights(const Model& model, std::shared_ptr<const ModelWeights> stored)
      : WeightSource(model), stored_(std::move(stored)) {}

  std::string name() const override { return "dequantised"; }
  void read(size_t tensor, int64_t first, std::span<uint16_t> out) const override {
    const Matrix matrix = stored_->matrix(specs()[tensor].name);
    const auto cols = static_cast<size_t>(matrix.cols);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i;
      if (matrix.e4m3 == nullptr) {
        out[i] = matrix.bf16[at];
        continue;
      }
      const uint8_t* row = matrix.e4m3 + at / cols * e4m3_rows::row_bytes(cols);
      out[i] = float_to_bf16(e4m3_to_float(row[at % cols]) * e4m3_rows::scale_of(row, cols));
    }
  }

 private:
  const std::shared_ptr<const ModelWeights> stored_;
};

// The engine computes with the codes and scales that it is given.
TEST(WeightFormats, CodesOfACheckpointGiveTheSameBitsAsTheSameCodesMadeAtLoad) {
  for (const WeightFormats& formats : {kLayers, kAll}) {
    const LlamaConfig config = with(tiny_untied_config(), formats);
    EXPECT_EQ(Decoder(config, stored_in_e4m3(config), host_options(kContext, 4, 2))
                  .force(random_tokens(config, 60, 7)),
              logits_of(config));
  }
}

// Logits of a reference in double precision, with weights of the values that codes and scales have, and
// without rounding. Kept codes come nearer to it than the same weights in bf16: neither they nor fp16
// activations are rounded as much.
TEST(WeightFormats, KeptCodesAreNearerToTheCheckpointThanItsValuesInBf16) {
  for (const LlamaConfig& model : {tiny_config(), tiny_untied_config()}) {
    SCOPED_TRACE(model.name);
    const LlamaConfig config = with(model, model.tie_word_embeddings ? kLayers : kAll);
    const auto stored = stored_in_e4m3(config);
    const auto dequantised = std::make_shared<const ModelWeights>(
        ModelWeights::materialise(std::make_shared<const DequantisedWeights>(model, stored)));
    const std::vector<int32_t> tokens = random_tokens(config, 40, 7);
    std::vector<std::vector<float>> exact;
    const ReferenceLlama reference(config, *stored, /*rounding=*/false);
    for (size_t count = 1; count <= tokens.size(); ++count)
      exact.push_back(reference.logits(std::span(tokens).first(count)));
    const BackendOptions options = host_options(kContext, 4, 2);
    const double kept = relative_error(Decoder(config, stored, options).force(tokens), exact);
    const double in_bf16 = relative_error(Decoder(model, dequantised, options).force(tokens), exact);
    EXPECT_LT(kept, in_bf16);
    EXPECT_LT(kept, 0.01);
    RecordProperty(model.name, fmt::format("{:.2e}, in bf16 {:.2e}", kept, in_bf16));
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
