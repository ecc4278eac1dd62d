// Shapes of weights whose page images are compared with the layout's definition.
#pragma once

#include <cstdint>

#include "vm/layout/units.h"
#include "vm/tensor.h"

namespace serval::testing {

struct PackedShape {
  uint64_t rows, cols;
  uint32_t head_dim;  // 0: rows in sequence
};

// Full and partial panels, panels whose half is not a multiple of a product pair, last units with missing
// rows, and both row orders.
inline constexpr PackedShape kPackedShapes[] = {
    {8, 1024, 0},  {16, 2048, 0}, {203, 96, 0},  {8, 16, 0},      {24, 1040, 0},    {40, 2080, 0},
    {64, 3072, 0}, {33, 8192, 0}, {128, 96, 64}, {256, 2048, 64}, {384, 3072, 128}, {256, 1072, 128}};

inline Tensor weight_of(const PackedShape& shape, DType dtype) {
  return {.name = "model.layers.3.mlp.up_proj.weight",
          .rows = shape.rows,
          .cols = shape.cols,
          .dtype = dtype,
          .kind = TensorKind::kWeight,
          .image = Image::kPages,
          .row_order = shape.head_dim > 0 ? RowOrder::kRotaryPairs : RowOrder::kSequential,
          .head_dim = shape.head_dim};
}

// The row of the matrix that is row `row` of the image, with the channels of instructions/qkv_rope/host.cc.
inline uint64_t matrix_row(const PackedShape& shape, uint64_t row) {
  if (shape.head_dim == 0) return row;
  const uint64_t head = row / shape.head_dim, unit = row % shape.head_dim / kUnitRows, i = row % kUnitRows;
  const uint64_t channel = i < 4 ? 4 * unit + i : 4 * unit + (i - 4) + shape.head_dim / 2;
  return head * shape.head_dim + channel;
}

}  // namespace serval::testing
