#include "engine/torch/teacher_forcing.h"

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "gmock/gmock.h"

#include "engine/backend/host_backend.h"
#include "engine/torch/fidelity.h"
#include "tests/oracle/oracle_support.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 64;

// The mean relative error of `logits` [tokens, vocab] against those of transformers.
double mean_relative_error(const GoldenModel& model, const std::vector<float>& logits) {
  const auto vocab = static_cast<size_t>(model.config.vocab_size);
  double sum = 0;
  for (size_t p = 0; p < model.tokens.size(); ++p) {
    std::vector<float> row;
    for (const size_t column : model.columns) row.push_back(logits[p * vocab + column]);
    sum += compare_position(row, model.logits[p]).relative;
  }
  return sum / static_cast<double>(model.tokens.size());
}

// Needs no LibTorch.
TEST(TeacherForcing, GivesLogitsOfEveryPositionNearThoseOfTransformers) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    std::vector<size_t> progress;
    const std::unique_ptr<Backend> backend = host_backend(model, kContext, 1);
    const std::vector<float> logits =
        teacher_force(*backend, model.tokens, [&](size_t done, size_t) { progress.push_back(done); });
    EXPECT_THAT(progress, ::testing::ElementsAre(16, 32, 40));
    ASSERT_EQ(logits.size(), model.tokens.size() * static_cast<size_t>(model.config.vocab_size));
    EXPECT_LT(mean_relative_error(model, logits), model.bf16_mean_relative_error);
  }
}

// Programs of tiles add in another order, and ranks exchange rounded partial sums. The error must still be
// below that of a bf16 pass.
TEST(TeacherForcing, GivesLogitsNearThoseOfTransformersWithTiles) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    const auto error_of = [&](uint32_t ranks) {
      const std::unique_ptr<Backend> backend = host_backend(
          model,
          {.context = kContext, .sequences = 1, .tile_rows = 16, .batch_invariant = true, .ranks = ranks});
      return mean_relative_error(model, teacher_force(*backend, model.tokens));
    };
    const double of_one = error_of(1), of_two = error_of(2);
    EXPECT_LT(of_one, model.bf16_mean_relative_error);
    EXPECT_NE(of_two, of_one) << "nothing was rounded or added in another order";
    EXPECT_LT(of_two, model.bf16_mean_relative_error);
  }
}

constexpr uint32_t kBatch = 64;
constexpr uint32_t kLongContext = 128;
constexpr uint32_t kLongestContext = 1200;

std::vector<int32_t> long_text(const GoldenModel& model, size_t count = 100) {
  return random_text(model.config, count);
}

// Programs of tiles for passes of up to `rows` rows.
std::unique_ptr<Backend> tiled_backend(const GoldenModel& model, uint32_t rows, uint32_t sequences = 1,
                                       uint32_t tile_rows = 16) {
  return host_backend(model, {.context = kLongContext,
                              .sequences = sequences,
                              .rows = rows,
                              .tile_rows = tile_rows,
                              .batch_invariant = true});
}

// Wraps a backend. Counts launches that read prompts; can return the next row's logits instead of one row's.
class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  std::string name() const override { return backend_->name(); }
  const Program& program() const override { return backend_->program(); }
  StateBlock& state() override { return backend_->state(); }
  void run(const Launch& launch, const std::function<void(uint32_t)>& on_pass,
           const std::function<void()>& on_begun) override {
    prompts += launch.reads_prompts ? 1 : 0;
    backend_->run(launch, on_pass, on_begun);
  }
  void request_stop() noexcept override { backend_->request_stop(); }
  std::span<const float> logits(int row) override {
    return backend_->logits(row == wrong_row ? row + 1 : row);
  }

  int prompts = 0;
  std::optional<int> wrong_row;

 private:
  std::unique_ptr<Backend> backend_;
};

TEST(TeacherForcing, RunsPassesSeveralTimesForMoreLogitsThanOneMayHave) {
  GoldenModel model = golden_models().front();
  model.config.max_position = kLongestContext;
  const std::vector<int32_t> tokens = long_text(model, 1100);
  std::vector<size_t> progress;
  CountingBackend backend(host_backend(model, {.context = kLongestContext, .sequences = 1, .rows = 1050}));
  const std::vector<float> logits =
      teacher_force(backend, tokens, [&](size_t done, size_t) { progress.push_back(done); });
  EXPECT_EQ(backend.prompts, 3);
  EXPECT_THAT(progress, ::testing::ElementsAre(kMostLogitRows, 1050, 1100));
  ASSERT_EQ(logits.size(), tokens.size() * static_cast<size_t>(model.config.vocab_size));
}

// A text's logits are the same if passes read all of it or pieces of it, and if a batch decodes it.
TEST(TeacherForcing, LogitsDoNotDependOnHowTilesReadAText) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    const std::vector<int32_t> tokens = long_text(model);
    const std::vector<float> expected = teacher_force(*tiled_backend(model, 16), tokens);
    for (const auto& [rows, tile_rows] : {std::pair(24U, 16U), {80U, 64U}, {128U, 256U}}) {
      const std::unique_ptr<Backend> backend = tiled_backend(model, rows, 1, tile_rows);
      EXPECT_EQ(teacher_force(*backend, tokens), expected) << rows << " rows, tiles of " << tile_rows;
    }
    if (model.config.has_tile_order()) {
      const std::unique_ptr<Backend> vectors = host_backend(model, {.context = kLongContext,
                                                                    .sequences = 1,
                                                                    .rows = 1,
                                                                    .tile_rows = 16,
                                                                    .batch_invariant = true,
                                                                    .tile_order = true});
      EXPECT_EQ(teacher_force(*vectors, tokens), expected) << "vectors in tile order";
    }
    const DecodedCopies copies = decode_copies(*tiled_backend(model, kBatch, kBatch), tokens, kBatch);
    EXPECT_EQ(copies.logits, expected);
    EXPECT_EQ(copies.different, 0U);
  }
}

// A batch reads and decodes with programs of one arithmetic class, even if programs of both exist.
TEST(TeacherForcing, CopiesHaveTheSameBits) {
  const GoldenModel model = golden_models().front();
  const std::vector<int32_t> tokens = long_text(model);
  BackendOptions options;
  options.limits = {.context = kLongContext, .sequences = kBatch, .rows = kBatch, .tile_rows = 16};
  options.row_classes = {kDefaultRows};
  options.threads = 1;
  CountingBackend backend(make_host_backend(model.config, model.weights, options));
  const auto logits_of = [&](uint32_t copies, int prompts) {
    backend.prompts = 0;
    const DecodedCopies decoded = decode_copies(backend, tokens, copies);
    EXPECT_EQ(decoded.different, 0U) << copies;
    EXPECT_EQ(backend.prompts, prompts) << copies;
    return decoded.logits;
  };
  const std::vector<float> of_one = logits_of(1, 0);
  EXPECT_EQ(logits_of(kDefaultRows, 0), of_one);
  EXPECT_NE(logits_of(kBatch, kBatch - 1), of_one) << "vectors and tiles add up in different orders";
  EXPECT_EQ(decode_copies(backend, std::span(tokens).first(5), kDefaultRows).different, 0U) << "short text";
}

TEST(TeacherForcing, CountsLogitsOfCopiesThatDiffer) {
  const GoldenModel model = golden_models().front();
  CountingBackend backend(host_backend(model, kContext, 4));
  backend.wrong_row = 2;
  const DecodedCopies copies = decode_copies(backend, model.tokens, 4);
  // Copy 2 differs at each position except where it comes first; there, the three others differ from it.
  EXPECT_EQ(copies.different, model.tokens.size() - 1 + 3);
}

TEST(TeacherForcing, RefusesMoreCopiesThanSlotsOrRows) {
  const std::vector<int32_t> tokens(kContext, 1);
  const auto refusal = [&](const ProgramLimits& limits, uint32_t copies) -> std::string {
    try {
      decode_copies(*host_backend(golden_models().front(), limits), tokens, copies);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({.context = kContext, .sequences = 20, .rows = 32}, 21),
            "teacher forcing: 21 sequences; limit: 20 (slots, and rows of a pass)");
  EXPECT_EQ(refusal({.context = kContext, .sequences = 20, .rows = 8}, 9),
            "teacher forcing: 9 sequences; limit: 8 (slots, and rows of a pass)");
  EXPECT_EQ(refusal({.context = kContext, .sequences = 8}, 8), "accepted");
}

TEST(TeacherForcing, RefusesATextLongerThanTheContext) {
  const std::unique_ptr<Backend> backend = host_backend(golden_models().front(), kContext, 1);
  EXPECT_THROW(teacher_force(*backend, std::vector<int32_t>(kContext + 1, 1)), Error);
}

using Gate = WithTorch;

TEST_F(Gate, HoldsForTilesThatReadATextInOnePassInPiecesAndThatDecodeABatch) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    const auto vocab = static_cast<size_t>(model.config.vocab_size);
    const std::vector<int32_t> tokens = long_text(model);
    const std::vector<float> fp32 = reference_logits(model, tokens, OracleDtype::kFp32);
    const Fidelity bf16 = compare_logits(reference_logits(model, tokens, OracleDtype::kBf16), fp32, vocab);
    const auto is_within = [&](const std::vector<float>& ours) {
      return fidelity_ratio(compare_logits(ours, fp32, vocab), bf16).within_gate();
    };
    for (const uint32_t rows : {128U, 64U, 24U})
      EXPECT_TRUE(is_within(teacher_force(*tiled_backend(model, rows), tokens))) << rows << " rows";
    EXPECT_TRUE(is_within(decode_copies(*tiled_backend(model, kBatch, kBatch), tokens, kBatch).logits));
  }
}

}  // namespace
}  // namespace serval::testing
