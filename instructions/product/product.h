// An op.h states once what its instruction multiplies. The pages of weights that stream through an SM, the
// boxes in which the copy engine loads them, the range check of the operands and the cost follow from that.
//
// Such an operand struct `Op` has
//   first_unit, num_units         the record's units of 8 weight rows
//   first_row, num_rows
//   kWeights                      its weight tensors: members of type TensorId
//   kMatrices                     optional: 2 if each unit has 8 rows of both weight tensors
//   kInput                        the activations: a member of type TensorId
//   kInputSquares                 optional: sums of squares of the input's residual. The results are
//                                 then those of the normalised rows, with op.epsilon (common/residual.h)
//   kAddsTo                       optional: the fp32 tensor to which the sums of op.parts K splits are added
// and functions beside it
//   product(op, shape)            the Product; `shape` is the program's
//   weight_unit(op, shape, unit)  optional: the weight tensor that has a unit, if there are several
//   tile_halves_apart(op, shape)  with it: true if the first and the last 8 of 16 units may lie in
//                                 different tensors
#pragma once

#include <array>
#include <concepts>
#include <cstdint>

#include "instructions/common/cost.h"
#include "vm/instruction.h"
#include "vm/layout/units.h"
#include "vm/program_shape.h"

namespace serval {

// The whole product; a record computes some of its units, for some rows.
struct Product {
  uint32_t units;      // units of 8 rows in each of its matrices
  uint32_t cols;       // columns of the weights
  uint32_t first_col;  // the record's columns [first_col, first_col + num_cols) of weights and input
  uint32_t num_cols;
  bool logits_only;  // results only for rows that want logits
};

// All columns.
constexpr Product whole_product(uint32_t units, uint32_t cols, bool logits_only = false) {
  return {units, cols, 0, cols, logits_only};
}

// Unit `index` of weight tensor `tensor`, an index into Op::kWeights.
struct WeightUnit {
  uint32_t tensor;
  uint32_t index;
  uint32_t adjoining = 1;  // the next units, as many in all, are the tensor's next ones
};

template <class Op>
concept HasProduct = requires(const Op& op, const ProgramShape& shape) {
  Op::kWeights;
  requires std::same_as<decltype(Op::kInput), TensorId Op::*const>;
  { product(op, shape) } -> std::same_as<Product>;
};

// Number of matrices of which a unit has 8 rows: 1, or 2 that are multiplied together.
template <HasProduct Op>
constexpr uint32_t matrices_of() {
  if constexpr (requires { Op::kMatrices; }) return Op::kMatrices;
  return 1;
}

// Weights of unit `unit` of matrix `matrix`.
template <HasProduct Op>
constexpr WeightUnit find_weights(const Op& op, const ProgramShape& shape, uint32_t unit, uint32_t matrix) {
  if constexpr (requires { weight_unit(op, shape, unit); }) return weight_unit(op, shape, unit);
  return {matrix, unit, product(op, shape).units - unit};
}

template <HasProduct Op>
Cost cost_of_product(const Op& op, const CostView& c) {
  const Product p = product(op, c.shape);
  const uint64_t rows = c.rows(op.first_row, op.num_rows);
  if (rows == 0) return {};
  const uint64_t outputs = uint64_t{op.num_units} * kUnitRows * matrices_of<Op>();
  const uint64_t begin = p.first_col, end = begin + p.num_cols;
  const uint64_t weights = c.bytes(op.*Op::kWeights[0], {0, outputs, begin, end});
  const uint64_t input = c.bytes(op.*Op::kInput, {0, rows, begin, end});
  // The weights are read from memory once a pass, with its first rows.
  return {.bytes = op.first_row == 0 ? weights : 0,
          .cached_bytes = input + (op.first_row == 0 ? 0 : weights),
          .operations = 2 * outputs * p.num_cols * rows};
}

// For instructions that cost nothing besides their product.
template <HasProduct Op>
Cost cost(const Op& op, const CostView& c) {
  return cost_of_product(op, c);
}

// One page of each matrix at a time.
template <HasProduct Op>
constexpr PageNeed pages(const Op&) {
  return {.pinned = 0, .streaming = matrices_of<Op>()};
}

}  // namespace serval
