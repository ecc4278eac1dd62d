#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/lm_head/op.h"

namespace serval::device {

template <>
struct DeviceOp<LmHead> : MatvecOp<DeviceOp<LmHead>> {
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const LmHead& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const LmHead& op) {
    return (op.vocab + kUnitRows - 1) / kUnitRows;
  }
  static __device__ __forceinline__ matvec::Input input(const RecordSlot& slot, const LmHead& op) {
    return {.activations = tensor<&LmHead::weighted, const std::byte>(slot),
            .squares = tensor<&LmHead::squares, const float>(slot),
            .epsilon = op.epsilon,
            .logits_only = true};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordSlot& slot, const LmHead&, uint32_t,
                                                           uint32_t&) {
    return tensor<&LmHead::weights, const std::byte>(slot);
  }

  static __device__ __forceinline__ matvec::Extra fetch_extra(const StorerRole&, const LmHead&,
                                                              const matvec::Output&) {
    return {};
  }
  static __device__ __forceinline__ void store_output(const StorerRole& role, const LmHead& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const matvec::Extra&) {
    const uint32_t token = (op.first_unit + out.unit) * kUnitRows + out.row_of_unit;
    if (!out.wanted || token >= op.vocab) return;
    ptx::store_relaxed(tensor<&LmHead::logits, float>(*role.slot) + size_t{out.row} * op.vocab + token,
                       sums.first);
  }
};

}  // namespace serval::device
