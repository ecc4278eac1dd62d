#pragma once

#include "instructions/product/epilogues/rope_and_append.cuh"
#include "instructions/product/operands.cuh"
#include "instructions/qkv_rope/op.h"

namespace serval::device {

template <>
struct ProductOp<QkvRope> {
  template <class Role>
  static __device__ __forceinline__ epilogues::RopeAndAppend<QkvRope> epilogue(const Role&,
                                                                               const QkvRope& op) {
    return {op};
  }
};

}  // namespace serval::device
