// Which weights a unit of a product has, and how many units adjoin it in its tensor: a GPU's loader looks a
// unit up only if it does not adjoin the one before.
#include <cstdint>

#include "gtest/gtest.h"

#include "instructions/isa_ops.h"
#include "instructions/product/product.h"

namespace serval {
namespace {

// Each of the units that find_weights() says to adjoin is the next one of the same tensor.
template <class Op>
void expect_adjoining_units_to_adjoin(const Op& op, const ProgramShape& shape, uint32_t first, uint32_t end) {
  for (uint32_t matrix = 0; matrix < matrices_of<Op>(); ++matrix) {
    uint32_t lookups = 0;
    for (uint32_t unit = first; unit < end;) {
      const WeightUnit at = find_weights(op, shape, unit, matrix);
      ASSERT_GE(at.adjoining, 1U) << unit;
      for (uint32_t k = 0; k < at.adjoining && unit + k < end; ++k) {
        const WeightUnit next = find_weights(op, shape, unit + k, matrix);
        ASSERT_EQ(next.tensor, at.tensor) << unit << " + " << k;
        ASSERT_EQ(next.index, at.index + k) << unit << " + " << k;
        ASSERT_EQ(next.adjoining, at.adjoining - k) << unit << " + " << k;
      }
      unit += at.adjoining;
      ++lookups;
    }
    EXPECT_LT(lookups, end - first);
  }
}

ProgramShape with_heads(uint32_t head_dim, uint32_t q_heads, uint32_t kv_heads) {
  ProgramShape shape;
  shape.heads = {.head_dim = head_dim, .q_heads = q_heads, .kv_heads = kv_heads};
  return shape;
}

TEST(WeightUnit, OfQKAndVAdjoinWithinAGroupOfHeads) {
  for (const uint32_t head_dim : {64U, 128U}) {
    for (const uint32_t kv_heads : {1U, 2U, 8U}) {
      for (const uint32_t group : {1U, 2U, 3U, 4U}) {
        const ProgramShape shape = with_heads(head_dim, kv_heads * group, kv_heads);
        expect_adjoining_units_to_adjoin(QkvRope{}, shape, 0, qkv_units(shape.heads));
        expect_adjoining_units_to_adjoin(ProjectPart{}, shape, 0, qkv_units(shape.heads));
      }
    }
  }
}

TEST(WeightUnit, OfWholeProjectionsAdjoin) {
  const ProgramShape shape = with_heads(128, 4, 1);
  expect_adjoining_units_to_adjoin(QkvProject{}, shape, 0, qkv_units(shape.heads));
}

TEST(WeightUnit, OfOneMatrixAdjoin) {
  GateUpSilu gate_up{};
  gate_up.hidden = 64;
  gate_up.intermediate = 176;
  expect_adjoining_units_to_adjoin(gate_up, {}, 0, 176 / kUnitRows);
  LmHead lm_head{};
  lm_head.hidden = 64;
  lm_head.vocab = 203;
  expect_adjoining_units_to_adjoin(lm_head, {}, 0, 26);
  lm_head.weights_unit = 13;
  expect_adjoining_units_to_adjoin(lm_head, {}, 13, 26);
}

}  // namespace
}  // namespace serval
