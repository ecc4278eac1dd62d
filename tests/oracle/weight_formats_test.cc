// The gate of models whose weights are 4-bit integers. The reference computes with the same dequantised
// weights: its fp32 pass is what both are compared with, its bf16 pass gives the limit.
#include <filesystem>
#include <fmt/format.h>

#include "engine/torch/fidelity.h"
#include "engine/torch/teacher_forcing.h"
#include "tests/llama/configs.h"
#include "tests/llama/stored_weights.h"
#include "tests/oracle/oracle_support.h"

namespace serval::testing {
namespace {

constexpr uint32_t kPositions = 256;
constexpr uint32_t kBatch = 32;
const std::filesystem::path kBundled = std::filesystem::path(SERVAL_SOURCE_DIR) / "assets" / "serval-stories";

struct Format {
  const char* name;
  WeightFormats formats;
  GroupWords words;
};
constexpr Format kFormats[] = {
    {"int4", {.layers = DType::kInt4G128}, GroupWords::kZeroPoints},
    {"int4:64", {.layers = DType::kInt4G64}, GroupWords::kMinima},
    {"int4:32", {.layers = DType::kInt4G32, .lm_head = DType::kInt4G32}, GroupWords::kZeroPoints},
    {"int4:32 with minima", {.layers = DType::kInt4G32, .lm_head = DType::kInt4G32}, GroupWords::kMinima}};

// Tokens of the stories that tests of the bundled model read, from the first one again after the last.
std::vector<int32_t> stories(size_t count) {
  std::vector<int32_t> tokens;
  for (const nlohmann::json& prompt : read_goldens("stories/goldens.json", "prompts")) {
    for (const char* part : {"ids", "greedy"}) {
      const std::vector<int32_t> more = prompt.at(part);
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  const size_t all = tokens.size();
  while (tokens.size() < count) tokens.push_back(tokens[tokens.size() - all]);
  tokens.resize(count);
  return tokens;
}

GoldenModel in_format(GoldenModel model, const WeightSource& bf16, const Format& format) {
  model.config.formats = format.formats;
  if (model.config.tie_word_embeddings) model.config.formats.lm_head = DType::kBF16;
  // The caller keeps the source alive.
  const std::shared_ptr<const WeightSource> borrowed(std::shared_ptr<const void>(), &bf16);
  model.weights = stored_in_codes(model.config, borrowed, format.words);
  return model;
}

std::vector<float> logits_of_tiles(const GoldenModel& model, uint32_t rows, uint32_t tile_rows) {
  return teacher_force(*host_backend(model, {.context = kPositions,
                                             .sequences = 1,
                                             .rows = rows,
                                             .tile_rows = tile_rows,
                                             .batch_invariant = true}),
                       model.tokens);
}

class Gate4Bits : public WithTorch {
 protected:
  // Vectors multiply exact weights; tiles round them to fp16.
  static void expect_within_gate(const GoldenModel& model, const std::string& name) {
    const auto vocab = static_cast<size_t>(model.config.vocab_size);
    const std::vector<float> fp32 = reference_logits(model, model.tokens, OracleDtype::kFp32);
    const Fidelity bf16 =
        compare_logits(reference_logits(model, model.tokens, OracleDtype::kBf16), fp32, vocab);
    std::string figures = fmt::format("bf16 {:.3e} {:.3e}", bf16.mean_relative, bf16.mean_kl);
    const auto check = [&](const char* program, const std::vector<float>& logits) {
      const Fidelity ours = compare_logits(logits, fp32, vocab);
      const FidelityRatio ratio = fidelity_ratio(ours, bf16);
      EXPECT_TRUE(ratio.within_gate()) << program << ": " << ratio.relative << ", " << ratio.kl;
      figures += fmt::format("; {} {:.3e} {:.3e}, ratios {:.3f} {:.3f}", program, ours.mean_relative,
                             ours.mean_kl, ratio.relative, ratio.kl);
    };
    const std::vector<float> tiles = logits_of_tiles(model, kPositions, 64);
    const std::vector<float> vectors = teacher_force(*host_backend(model, kPositions, 1), model.tokens);
    EXPECT_NE(tiles, vectors) << "tiles have not rounded";
    check("tiles", tiles);
    check("vectors", vectors);
    RecordProperty(name, figures);
  }
};

TEST_F(Gate4Bits, HoldsForTilesAndVectors) {
  for (GoldenModel& model : golden_models()) {
    const auto bf16 = make_random_weights(model.config, 1);
    model.tokens = random_text(model.config, kPositions);
    for (const Format& format : kFormats) {
      const std::string name = fmt::format("{} in {}", model.name, format.name);
      SCOPED_TRACE(name);
      expect_within_gate(in_format(model, *bf16, format), name);
    }
  }
}

TEST_F(Gate4Bits, HoldsForTheBundledModel) {
  GoldenModel model;
  model.config = load_config(kBundled);
  model.tokens = stories(kPositions);
  const auto bf16 = open_checkpoint_weights(kBundled, model.config);
  for (const Format& format : kFormats) {
    SCOPED_TRACE(format.name);
    expect_within_gate(in_format(model, *bf16, format), format.name);
  }
}

// Needs no LibTorch.
TEST(WeightFormats, LogitsIn4BitsDoNotDependOnHowTilesReadAText) {
  for (GoldenModel& golden : golden_models()) {
    SCOPED_TRACE(golden.name);
    const auto bf16 = make_random_weights(golden.config, 1);
    golden.tokens = random_text(golden.config, 70);
    for (const Format& format : {kFormats[0], kFormats[3]}) {
      SCOPED_TRACE(format.name);
      const GoldenModel model = in_format(golden, *bf16, format);
      const std::vector<float> expected = logits_of_tiles(model, 128, 64);
      EXPECT_EQ(logits_of_tiles(model, 24, 16), expected);
      EXPECT_EQ(logits_of_tiles(model, 128, 256), expected);
      const std::unique_ptr<Backend> batch = host_backend(
          model,
          {.context = 128, .sequences = kBatch, .rows = kBatch, .tile_rows = 64, .batch_invariant = true});
      const DecodedCopies copies = decode_copies(*batch, model.tokens, kBatch);
      EXPECT_EQ(copies.logits, expected);
      EXPECT_EQ(copies.different, 0U);
    }
  }
}

}  // namespace
}  // namespace serval::testing
