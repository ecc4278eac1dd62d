// What instructions that multiply the projections of attention's inputs say of their tiles.
#pragma once

#include "instructions/common/gemm.cuh"
#include "instructions/common/qkv_heads.h"

namespace serval::device::gemm {

template <class Op>
__device__ __forceinline__ bool qkv_units_in_range(const Op& op) {
  return (op.head_dim == 64 || op.head_dim == 128) &&
         units_in_range(op.first_unit, op.num_units, kTileUnits,
                        (op.q_heads + 2 * op.kv_heads) * (op.head_dim / kUnitRows)) &&
         rows_in_range(op);
}
// A head of 128 channels fills a tile; two of 64 may be of different matrices.
template <class Op>
__device__ __forceinline__ Units units_of_heads(const Op& op) {
  return op.head_dim < 128 && op.num_units > kWarpgroupUnits ? Units::kNeighboursApart
                                                             : neighbours(op.num_units);
}
// The products of all columns.
template <class Op>
__device__ __forceinline__ Shape shape_of_heads(const Op& op, const std::byte* activations) {
  return {.activations = activations,
          .squares = nullptr,
          .epsilon = 0,
          .image_rows = op.max_rows,
          .first_row = op.first_row,
          .end_row = op.first_row + op.num_rows,
          .units = units_of_heads(op),
          .cols = op.hidden,
          .logits_only = 0,
          .adds = 0,
          .block_table = nullptr,
          .blocks_of_sequence = 0};
}
template <class Op>
__device__ __forceinline__ Pages pages_of_heads(const BoundProgram& program, const Op& op, uint32_t half) {
  const QkvUnit u = qkv_unit(op, op.first_unit + half * kWarpgroupUnits);
  const TensorId matrix = u.part == QkvPart::kQ ? op.wq : u.part == QkvPart::kK ? op.wk : op.wv;
  const bool halves = op.head_dim < 128 || op.num_units <= kWarpgroupUnits;
  return {tensor_map(program, matrix, halves), u.head * (op.head_dim / kUnitRows) + u.index};
}

}  // namespace serval::device::gemm
