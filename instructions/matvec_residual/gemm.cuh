// matvec_residual in programs that multiply tiles of rows.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/matvec_residual/op.h"

namespace serval::device {

template <>
struct GemmOp<MatvecResidual> {
  static __device__ bool in_range(const MatvecResidual& op) {
    return gemm::units_in_range(op.first_unit, op.num_units, gemm::kTileUnits, op.out_cols / kUnitRows) &&
           gemm::rows_in_range(op) && op.parts >= 1 && op.parts <= page_image::panels(op.in_cols);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const MatvecResidual& op) {
    gemm::Shape shape = gemm::product_shape(op, tensor<&MatvecResidual::input, const std::byte>(buffer));
    shape.adds = 1;
    shape.parts = op.parts;
    return shape;
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const MatvecResidual& op,
                                         uint32_t part) {
    if (part == gemm::kResidualPart)
      return {gemm::tensor_map(program, op.residual), op.first_unit * kUnitRows};
    return gemm::weight_pages(program, op);
  }
  // Of a part that is not the last.
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void add_part(Role& role, const MatvecResidual& op,
                                                  const gemm::WarpTile& tile, float (&d)[kValues]) {
    gemm::add_sums(role, tile, gemm::tensor_map(role.launch.program, op.residual), op.first_unit * kUnitRows,
                   op.num_units, d);
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const MatvecResidual& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    const auto place = [&]() -> gemm::ResidualPlace {
      return {tensor<&MatvecResidual::residual, float>(*role.buffer),
              tensor<&MatvecResidual::norm, const uint16_t>(*role.buffer),
              tensor<&MatvecResidual::weighted, std::byte>(*role.buffer),
              tensor<&MatvecResidual::squares, float>(*role.buffer),
              op.max_rows,
              op.out_cols};
    };
    gemm::add_to_residual(role, tile, place, op.first_unit, op.num_units, d);
  }
};

}  // namespace serval::device
