// matvec_part: programs that multiply tiles of rows have it, no others.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/matvec_part/op.h"

namespace serval::device {

template <>
struct GemmOp<MatvecPart> {
  static __device__ bool in_range(const MatvecPart& op) {
    return gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits, op.out_cols / kUnitRows) &&
           gemm::rows_in_range(op) && op.num_cols != 0 && op.first_col < op.in_cols &&
           op.num_cols <= op.in_cols - op.first_col && op.first_col % page_image::kPanelCols == 0;
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const MatvecPart& op) {
    gemm::Shape shape = gemm::product_shape(op, tensor<&MatvecPart::input, const std::byte>(buffer));
    gemm::take_columns(shape, op.first_col, op.num_cols);
    return shape;
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const MatvecPart& op, uint32_t) {
    return gemm::weight_pages(program, op);
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const MatvecPart& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    float* to = tensor<&MatvecPart::sums, float>(*role.buffer) + op.first_unit * kUnitRows;
    gemm::store_sums(role, tile, to, op.out_cols, d);
  }
};

}  // namespace serval::device
