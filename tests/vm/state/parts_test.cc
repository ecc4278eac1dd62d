#include "vm/state/parts.h"

#include <vector>

#include "gtest/gtest.h"

#include "vm/state/names.h"

namespace serval::testing {
namespace {

constexpr const char* kNames[] = {
    state_tensor::kRows,        state_tensor::kSlots,    state_tensor::kSampled,    state_tensor::kControl,
    state_tensor::kOutput,      state_tensor::kHostStop, state_tensor::kBlockTable, state_tensor::kAttention,
    state_tensor::kAdjustments, state_tensor::kTop,      state_tensor::kMasks,      state_tensor::kPooled};

TEST(StatePart, IsKnownByItsName) {
  for (const char* name : kNames) EXPECT_EQ(state_part(name, {.pooled_cols = 16})->name, name);
  EXPECT_EQ(state_part(state_tensor::kPooled, {}), std::nullopt) << "a program that generates has none";
  EXPECT_EQ(state_part("state.row", {}), std::nullopt);
}

constexpr StateLimits kLimits = {.vocab = 1000, .max_context = 200, .pooled_cols = 48};

// The type and shape of a part identify it for a record's operand (instructions/common/check.h).
TEST(StatePart, HasRowsOfATypeAndSizeThatNoOtherHas) {
  for (const char* a : kNames) {
    for (const char* b : kNames) {
      if (a == b) continue;
      const Tensor x = *state_part(a, kLimits), y = *state_part(b, kLimits);
      EXPECT_FALSE(x.dtype == y.dtype && x.cols == y.cols) << a << " and " << b;
    }
  }
}

TEST(LivesWithinPass, AreActivationsAndWhatIsSampled) {
  EXPECT_TRUE(lives_within_pass({.name = "mlp", .kind = TensorKind::kActivation}));
  EXPECT_TRUE(lives_within_pass(*state_part(state_tensor::kSampled, {})));
  EXPECT_FALSE(lives_within_pass(*state_part(state_tensor::kRows, {})));
  EXPECT_FALSE(lives_within_pass({.name = "cache", .kind = TensorKind::kKvCache}));
}

}  // namespace
}  // namespace serval::testing
