// What instructions that multiply the projections of attention's inputs say of their tiles.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/common/qkv_heads.h"

namespace serval::device::gemm {

template <class Op>
__device__ __forceinline__ bool qkv_units_in_range(const Op& op) {
  return (op.head_dim == 64 || op.head_dim == 128) &&
         units_in_range(op.first_unit, op.num_units, kTileUnits, qkv_units(op)) && rows_in_range(op);
}
// A head of 128 channels fills a tile; two of 64 may be of different matrices.
template <class Op>
__device__ __forceinline__ Units units_of_heads(const Op& op) {
  return op.head_dim < 128 && op.num_units > kWarpgroupUnits ? Units::kNeighboursApart
                                                             : neighbours(op.num_units);
}
template <class Op>
__device__ __forceinline__ Shape shape_of_heads(const Op& op, const std::byte* activations) {
  return plain_shape(op, activations, units_of_heads(op), op.hidden);
}
template <class Op>
__device__ __forceinline__ Pages pages_of_heads(const BoundProgram& program, const Op& op, uint32_t half) {
  const QkvUnit u = qkv_unit(op, op.first_unit + half * kWarpgroupUnits);
  const TensorId matrix = u.part == QkvPart::kQ ? op.wq : u.part == QkvPart::kK ? op.wk : op.wv;
  const bool halves = op.head_dim < 128 || op.num_units <= kWarpgroupUnits;
  return {tensor_map(program, matrix, halves), u.head * (op.head_dim / kUnitRows) + u.index};
}

}  // namespace serval::device::gemm
