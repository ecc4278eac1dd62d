// Models whose weights are kept in 8 or 4 bits: programs, results on the host, and what is refused.
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/compile/compile_model.h"
#include "instructions/isa.h"
#include "models/llama/graph.h"
#include "models/program_proof.h"
#include "tests/llama/decoder.h"
#include "tests/llama/reference_llama.h"
#include "tests/llama/stored_weights.h"
#include "tests/llama/tiny_model.h"
#include "vm/base/bf16.h"
#include "vm/base/error.h"
#include "vm/layout/weight_rows.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 128;
constexpr uint64_t kSeed = 5;
constexpr WeightFormats kLayers = {.layers = DType::kE4M3};
constexpr WeightFormats kAll = {.layers = DType::kE4M3, .lm_head = DType::kE4M3};
constexpr WeightFormats kHead = {.lm_head = DType::kE4M3};

constexpr WeightFormats kInt4Layers = {.layers = DType::kInt4G32};
constexpr WeightFormats kInt4All = {.layers = DType::kInt4G32, .lm_head = DType::kE4M3};
constexpr WeightFormats kInt4Groups = {.layers = DType::kInt4G64, .lm_head = DType::kInt4G64};

// For formats of 4 bits, with columns that are whole groups.
LlamaConfig with(LlamaConfig config, const WeightFormats& formats) {
  config.formats = formats;
  const uint32_t group = std::max(group_of(formats.layers), group_of(formats.lm_head));
  if (group > 0) config.intermediate_size = 192;
  if (group > 32) config.hidden_size = 128;
  return config;
}

LlamaConfig in_bf16_of(LlamaConfig config) {
  config.formats = {};
  return config;
}

std::vector<std::vector<float>> logits_of(const LlamaConfig& config) {
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16_of(config), kSeed));
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

// tiny_config() with rows of whole slabs of e4m3, in programs of `rows` rows that multiply tiles.
LlamaConfig with_e4m3_inputs(bool e4m3_inputs) {
  LlamaConfig config =
      with(tiny_config(), {.layers = DType::kE4M3, .lm_head = DType::kE4M3, .e4m3_inputs = e4m3_inputs});
  config.hidden_size = 256;
  config.intermediate_size = 384;
  return config;
}
BackendOptions tile_options(uint32_t sms, uint32_t rows, uint32_t tile_rows) {
  BackendOptions options = host_options(kContext, sms);
  options.limits.rows = rows;
  options.limits.tile_rows = tile_rows;
  return options;
}

// Activations are rounded as weights are, and so change logits by about as much. The division into instances
// does not show.
TEST(WeightFormats, ActivationsInE4M3ChangeLogitsByWhatTheirRoundingCosts) {
  const LlamaConfig config = with_e4m3_inputs(true), plain = with_e4m3_inputs(false);
  ASSERT_TRUE(config.has_e4m3_inputs());
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16_of(config), kSeed));
  const std::vector<int32_t> tokens = random_tokens(config, 100, 7);
  const auto logits = [&](const LlamaConfig& of, uint32_t sms, uint32_t rows, uint32_t tile_rows) {
    return Decoder(of, weights, tile_options(sms, rows, tile_rows)).force(tokens);
  };
  const auto found = logits(config, 3, 100, 64);
  const double error = relative_error(found, logits(plain, 3, 100, 64));
  EXPECT_GT(error, 0.005);
  EXPECT_LT(error, 0.12);
  EXPECT_EQ(logits(config, 1, 100, 256), found);
  EXPECT_EQ(logits(config, 7, 65, 16), found);
}

// The instructions quantise_rows in the programs of passes of up to `rows` rows.
size_t quantising_stages(const LlamaConfig& config, uint32_t rows) {
  const Graph graph =
      build_llama_graph(config, {.sms = 4, .context = kContext, .rows = rows, .tile_rows = 256});
  return static_cast<size_t>(std::ranges::count_if(graph.stages, [](const Stage& stage) {
    return stage.name.find("quantise_rows") != std::string::npos;
  }));
}

TEST(WeightFormats, ActivationsAreInE4M3InPassesOfMoreThan64Rows) {
  const LlamaConfig config = with_e4m3_inputs(true);
  const size_t of_layers = 4 * static_cast<size_t>(config.num_layers);
  EXPECT_EQ(quantising_stages(config, 65), of_layers + 1);  // and of the LM head
  EXPECT_EQ(quantising_stages(config, 64), 0U);
  EXPECT_EQ(quantising_stages(with_e4m3_inputs(false), 65), 0U);
  LlamaConfig head_in_bf16 = config;
  head_in_bf16.formats.lm_head = DType::kBF16;
  EXPECT_EQ(quantising_stages(head_in_bf16, 65), of_layers);
  LlamaConfig odd = config;
  odd.intermediate_size = 448;
  EXPECT_FALSE(odd.has_e4m3_inputs());
  EXPECT_THROW(quantising_stages(odd, 65), Error);
}

// 15 steps for a group of random weights, which fill their range evenly: errors of up to half a step, a 15th
// of the range, against weights of a third of it.
TEST(WeightFormats, Int4ChangesLogitsByWhatItsRoundingCosts) {
  for (const LlamaConfig& config : {tiny_config(), tiny_untied_config(), tiny_parts_config()}) {
    SCOPED_TRACE(config.name);
    for (const WeightFormats& formats : {kInt4Layers, kInt4All, kInt4Groups}) {
      const LlamaConfig in_int4 = with(config, formats);
      const double error = relative_error(logits_of(in_int4), logits_of(in_bf16_of(in_int4)));
      EXPECT_GT(error, 0.005);
      EXPECT_LT(error, 0.3);
    }
  }
}

// Groups that do not divide the columns have no program.
TEST(WeightFormats, ProgramsHaveWholeGroups) {
  ProgramLimits limits;
  limits.context = kContext;
  Program program = *compile_model(with(tiny_config(), kInt4Layers), host_machine(3), limits);
  check_structure(program);
  const auto o_proj = program.find_tensor("model.layers.0.self_attn.o_proj.weight");
  ASSERT_TRUE(o_proj);
  Tensor& tensor = program.tensors[o_proj->index];
  ASSERT_EQ(tensor.dtype, DType::kInt4G32);
  tensor.cols -= 16;
  try {
    check_structure(program);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("columns; expected a multiple of 32 in int4:32"));
  }
}

std::shared_ptr<const ModelWeights> random_in_codes(const LlamaConfig& config) {
  return stored_in_codes(config, make_random_weights(in_bf16_of(config), kSeed));
}

// The values of the matrices that `stored` has in codes, rounded to bf16: as a run in bf16 has them.
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
      if (matrix.codes == nullptr) {
        out[i] = matrix.bf16[at];
        continue;
      }
      const uint8_t* row = matrix.codes + at / cols * row_bytes_of(matrix.dtype, cols);
      out[i] = float_to_bf16(value_in_row(matrix.dtype, row, cols, at % cols));
    }
  }

 private:
  const std::shared_ptr<const ModelWeights> stored_;
};

// The engine computes with the codes and scales that it is given.
TEST(WeightFormats, CodesOfACheckpointGiveTheSameBitsAsTheSameCodesMadeAtLoad) {
  for (const WeightFormats& formats : {kLayers, kAll, kInt4Layers, kInt4All, kInt4Groups}) {
    const LlamaConfig config = with(tiny_untied_config(), formats);
    EXPECT_EQ(Decoder(config, random_in_codes(config), host_options(kContext, 4, 2))
                  .force(random_tokens(config, 60, 7)),
              logits_of(config));
  }
}

// Logits of a reference in double precision, with weights of the values that codes and scales have, and
// without rounding. Kept codes come nearer to it than the same weights in bf16: neither they nor fp16
// activations are rounded as much.
TEST(WeightFormats, KeptCodesAreNearerToTheCheckpointThanItsValuesInBf16) {
  for (const LlamaConfig& config :
       {with(tiny_config(), kLayers), with(tiny_untied_config(), kAll), with(tiny_config(), kInt4Layers),
        with(tiny_untied_config(), kInt4Groups)}) {
    SCOPED_TRACE(fmt::format("{} in {}", config.name, name_of(config.formats.layers)));
    const LlamaConfig model = in_bf16_of(config);
    const auto stored = random_in_codes(config);
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
    RecordProperty(fmt::format("{}_{}", model.name, static_cast<int>(config.formats.layers)),
                   fmt::format("{:.2e}, in bf16 {:.2e}", kept, in_bf16));
  }
}

TEST(WeightFormats, BitsDoNotDependOnNeighboursChunksAndPlacement) {
  for (const WeightFormats& formats : {kAll, kInt4All, kInt4Groups}) {
    const LlamaConfig config = with(tiny_config(), formats);
    const auto weights =
        std::make_shared<const ModelWeights>(ModelWeights::random(in_bf16_of(config), kSeed));
    const std::vector<Sequence> sequences = {{random_tokens(config, 37, 1), 6},
                                             {random_tokens(config, 5, 2), 9}};
    Decoder four(config, weights, host_options(kContext, 4, 2));
    const std::vector<Answer> together = four.answer(sequences);
    EXPECT_EQ(four.answer({sequences[0]}), std::vector{together[0]});
    EXPECT_EQ(four.answer(sequences, {.chunk = 3}), together);
    EXPECT_EQ(Decoder(config, weights, host_options(kContext, 4, 1)).answer(sequences), together);
  }
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
      EXPECT_THAT(error.what(), HasSubstr("weights of 8 or 4 bits: supported on 1 GPU"));
    }
  }
}

}  // namespace
}  // namespace serval::testing
