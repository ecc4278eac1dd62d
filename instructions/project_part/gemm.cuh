// project_part: programs of several devices that multiply tiles of rows have it, no others.
#pragma once

#include "instructions/common/qkv_pages.cuh"
#include "instructions/project_part/op.h"

namespace serval::device {

template <>
struct GemmOp<ProjectPart> {
  static __device__ bool in_range(const ProjectPart& op) {
    return gemm::qkv_units_in_range(op) && op.part < op.parts && op.parts <= page_image::panels(op.hidden);
  }
  static __device__ gemm::Shape shape(const RecordBuffer& buffer, const ProjectPart& op) {
    gemm::Shape shape = gemm::shape_of_heads(op, tensor<&ProjectPart::weighted, const std::byte>(buffer));
    const ColumnRange cols = columns_of(op);
    gemm::take_columns(shape, cols.begin, cols.count());
    return shape;
  }
  static __device__ gemm::Pages pages_of(const BoundProgram& program, const ProjectPart& op, uint32_t half) {
    return gemm::pages_of_heads(program, op, half);
  }
  template <class Role, uint32_t kValues>
  static __device__ __forceinline__ void finish_tile(Role& role, const ProjectPart& op,
                                                     const gemm::WarpTile& tile, float (&d)[kValues]) {
    if (!gemm::has_units(tile, op.num_units)) return;
    const uint32_t cols = qkv_cols(op);
    float* to = tensor<&ProjectPart::sums, float>(*role.buffer) + op.part * cols + op.first_unit * kUnitRows;
    gemm::store_sums(role, tile, to, op.parts * cols, d);
  }
};

}  // namespace serval::device
