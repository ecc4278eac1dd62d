#include "engine/torch/teacher_forcing.h"

#include "gmock/gmock.h"

#include "engine/torch/fidelity.h"
#include "tests/oracle/oracle_support.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

constexpr uint32_t kContext = 64;

// Needs no LibTorch: ours against the logits that transformers computed.
TEST(TeacherForcing, GivesLogitsOfEveryPositionNearThoseOfTransformers) {
  for (const GoldenModel& model : golden_models()) {
    SCOPED_TRACE(model.name);
    std::vector<size_t> progress;
    const std::unique_ptr<Backend> backend = host_backend(model, kContext, 1);
    const std::vector<float> logits =
        teacher_force(*backend, model.tokens, [&](size_t done, size_t) { progress.push_back(done); });
    EXPECT_THAT(progress, ::testing::ElementsAre(16, 32, 40));
    const auto vocab = static_cast<size_t>(model.config.vocab_size);
    ASSERT_EQ(logits.size(), model.tokens.size() * vocab);
    double sum = 0;
    for (size_t p = 0; p < model.tokens.size(); ++p) {
      std::vector<float> row;
      for (const size_t column : model.columns) row.push_back(logits[p * vocab + column]);
      sum += compare_position(row, model.logits[p]).relative;
    }
    EXPECT_LT(sum / static_cast<double>(model.tokens.size()), model.bf16_mean_relative_error);
  }
}

TEST(TeacherForcing, RefusesATextLongerThanTheContext) {
  const std::unique_ptr<Backend> backend = host_backend(golden_models().front(), kContext, 1);
  EXPECT_THROW(teacher_force(*backend, std::vector<int32_t>(kContext + 1, 1)), Error);
}

}  // namespace
}  // namespace serval::testing
