#pragma once

#include "instructions/matvec_push/op.h"
#include "instructions/product/epilogues/push.cuh"
#include "instructions/product/operands.cuh"

namespace serval::device {

template <>
struct ProductOp<MatvecPush> {
  // A warpgroup's columns must belong to one slice.
  static __device__ bool tile_in_range(const MatvecPush& op, const ProgramShape&) {
    return op.ranks != 0 && op.ranks <= kMaxDevices && op.rank < op.ranks &&
           op.out_cols / op.ranks % kSquareColsOfTiles == 0 &&
           op.first_unit % tile_stream::kWarpgroupUnits == 0;
  }
  template <class Role>
  static __device__ __forceinline__ epilogues::PushSums epilogue(const Role& role, const MatvecPush& op) {
    return {.tensors = role.launch.program.tensors,
            .partial = op.partial,
            .cols = op.out_cols,
            .rank = op.rank,
            .ranks = op.ranks,
            .first_unit = op.first_unit,
            .num_units = op.num_units};
  }
};

}  // namespace serval::device
