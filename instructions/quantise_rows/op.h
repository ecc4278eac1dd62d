// output[r] = the nearest e4m3 codes of input[r] / scale, and scale = the row's largest magnitude / 448: the
// activations that products of e4m3 weights take in e4m3.
//
// Elements are multiplied with 1 / scale, rounded to fp32, and then rounded to nearest, ties to even. A row
// of zeros has scale 1. An input that is not finite gives codes that are NaN.
#pragma once

#include <array>

#include "instructions/common/check.h"
#include "instructions/common/cost.h"
#include "instructions/common/footprint.h"
#include "instructions/common/kernel_set.h"
#include "vm/layout/e4m3_slab_image.h"
#include "vm/layout/units.h"

namespace serval {

struct QuantiseRows {
  TensorId input;
  TensorId rows;
  TensorId output;
  uint32_t cols;
  uint32_t logits_only = 0;
  uint32_t first_row = 0;
  uint32_t num_rows;

  static constexpr KernelSet kKernels = {
      .vectors = false, .tile_order = false, .ranks = false, .pools = false, .w8a8 = true};

  static constexpr std::array kWindows = {&QuantiseRows::first_row, &QuantiseRows::num_rows};

  template <class V>
  static constexpr void fields(V&& v) {
    v(&QuantiseRows::input, "input", "in [max_rows, cols] f16");
    v(&QuantiseRows::rows, "rows", "in: the pass's rows");
    v(&QuantiseRows::output, "output", "out [max_rows, cols] e4m3, with a scale for each row");
    v(&QuantiseRows::cols, "cols", "columns");
    v(&QuantiseRows::logits_only, "logits_only", "1: only rows of which logits are wanted; 0: all");
    v(&QuantiseRows::first_row, "first_row", "rows of the pass");
    v(&QuantiseRows::num_rows, "num_rows", "rows of the pass");
  }
};

inline void footprint(const QuantiseRows& op, const StateView*, FootprintBuilder<QuantiseRows>& f) {
  const RowSet rows = computed_rows(op.logits_only != 0);
  f.read_rows<&QuantiseRows::input>(rows, 0, op.cols);
  f.pass_rows<&QuantiseRows::rows>();
  f.write_rows<&QuantiseRows::output>(rows, 0, op.cols);
}

// An SM reads a row twice: for its largest magnitude, and for its codes.
inline Cost cost(const QuantiseRows& op, const CostView& c) {
  const uint64_t elements = c.rows(op.first_row, op.num_rows) * op.cols;
  return {.cached_bytes = elements * (2 * c.element_bytes(op.input) + c.element_bytes(op.output)),
          .operations = elements * 2};
}

inline PageNeed pages(const QuantiseRows&) {
  return {.pinned = 0, .streaming = 0};
}  // rows go through registers

inline void check(const QuantiseRows& op, OperandCheck& c) {
  c.pass_rows(op.rows);
  c.rows_of_pass(op.first_row, op.num_rows);
  c.require(op.logits_only <= 1, "logits_only", op.logits_only, "0 or 1");
  c.dimension("cols", op.cols, e4m3_slab_image::kColsOfSlab);
  c.image_of_rows("input", op.input, DType::kF16, op.cols);
  c.image_of_rows("output", op.output, DType::kE4M3, op.cols);
}

}  // namespace serval
