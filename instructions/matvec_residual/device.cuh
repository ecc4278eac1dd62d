#pragma once

#include "instructions/common/activations.cuh"
#include "instructions/matvec_residual/op.h"

namespace serval::device {

template <>
struct DeviceOp<MatvecResidual> : MatvecOp<DeviceOp<MatvecResidual>> {
  using Extra = float;  // what the residual holds
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const MatvecResidual& op) { return op.in_cols; }
  static __device__ __forceinline__ uint32_t units(const MatvecResidual& op) {
    return op.out_cols / kUnitRows;
  }
  static __device__ __forceinline__ matvec::Input input(const RecordSlot& slot, const MatvecResidual&) {
    return {.plain = tensor<&MatvecResidual::input, const std::byte>(slot)};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordSlot& slot, const MatvecResidual&,
                                                           uint32_t, uint32_t&) {
    return tensor<&MatvecResidual::weights, const std::byte>(slot);
  }

  static __device__ __forceinline__ float* place(const StorerRole& role, const MatvecResidual& op,
                                                 const matvec::Output& out) {
    return tensor<&MatvecResidual::residual, float>(*role.slot) + size_t{out.row} * op.out_cols +
           (op.first_unit + out.unit) * kUnitRows + out.row_of_unit;
  }
  static __device__ __forceinline__ Extra fetch_extra(const StorerRole& role, const MatvecResidual& op,
                                                      const matvec::Output& out) {
    return out.wanted ? ptx::load_relaxed(place(role, op, out)) : 0.0F;
  }
  static __device__ __forceinline__ void store_output(const StorerRole& role, const MatvecResidual& op,
                                                      const matvec::Output& out, const float (&sums)[1],
                                                      Extra old) {
    if (out.wanted) ptx::store_relaxed(place(role, op, out), old + sums[0]);
  }
};

}  // namespace serval::device
