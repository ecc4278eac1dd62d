#pragma once

#include "instructions/lm_head/op.h"
#include "instructions/product/epilogues/logits.cuh"
#include "instructions/product/operands.cuh"

namespace serval::device {

template <>
struct ProductOp<LmHead> {
  template <class Role>
  static __device__ __forceinline__ epilogues::Logits epilogue(const Role& role, const LmHead& op) {
    return {.logits = tensor<&LmHead::logits, float>(*role.buffer),
            .unit_softmax = tensor<&LmHead::unit_softmax, float2>(*role.buffer),
            .vocab = op.vocab,
            .first_unit = op.first_unit,
            .num_units = op.num_units};
  }
};

}  // namespace serval::device
