#include "engine/torch/teacher_forcing.h"

#include "gmock/gmock.h"

#include "engine/torch/fidelity.h"
#include "tests/oracle/oracle_support.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 64;

// Of our logits [tokens, vocab], against those that transformers computed.
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

// Programs that multiply tiles of rows round the partial sums that ranks exchange: the logits stay nearer
// than those of a pass in bf16.
TEST(TeacherForcing, GivesLogitsNearThoseOfTransformersWhereRanksMultiplyTiles) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    const auto error_of = [&](uint32_t ranks) {
      const std::unique_ptr<Backend> backend = host_backend(
          model,
          {.context = kContext, .sequences = 1, .tile_rows = 16, .batch_invariant = true, .ranks = ranks});
      return mean_relative_error(model, teacher_force(*backend, model.tokens));
    };
    const double of_two = error_of(2);
    EXPECT_NE(of_two, error_of(1)) << "nothing was rounded or added in another order";
    EXPECT_LT(of_two, model.bf16_mean_relative_error);
  }
}

TEST(TeacherForcing, RefusesATextLongerThanTheContext) {
  const std::unique_ptr<Backend> backend = host_backend(golden_models().front(), kContext, 1);
  EXPECT_THROW(teacher_force(*backend, std::vector<int32_t>(kContext + 1, 1)), Error);
}

}  // namespace
}  // namespace serval::testing
