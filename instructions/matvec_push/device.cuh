#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/matvec_push/op.h"

namespace serval::device {

template <>
struct DeviceOp<MatvecPush> : MatvecOp<DeviceOp<MatvecPush>> {
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const MatvecPush& op) { return op.in_cols; }
  static __device__ __forceinline__ uint32_t units(const MatvecPush& op) { return op.out_cols / kUnitRows; }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer, const MatvecPush& op) {
    return {.activations = tensor<&MatvecPush::input, const std::byte>(buffer),
            .squares = nullptr,
            .epsilon = 0,
            .logits_only = op.logits_only != 0};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const MatvecPush&,
                                                           uint32_t, uint32_t&) {
    return tensor<&MatvecPush::weights, const std::byte>(buffer);
  }

  struct Fetched {
    float* to;  // at the owner of the column
  };
  template <class Role>
  static __device__ __forceinline__ Fetched fetch_constant(const Role& role, const MatvecPush& op,
                                                           const matvec::Output& out) {
    if (!out.wanted) return {};
    const uint32_t col = (op.first_unit + out.unit) * kUnitRows + out.row_of_unit;
    const uint32_t width = op.out_cols / op.ranks, owner = col / width;
    auto* partial = static_cast<float*>(role.launch.program.tensors[op.partial.on(owner).index]);
    return {partial + size_t{out.row} * op.out_cols + op.rank * width + (col - owner * width)};
  }
  template <class Role>
  static __device__ __forceinline__ void store_output(const Role&, const MatvecPush&,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched& fetched) {
    if (out.wanted) ptx::store_relaxed(fetched.to, sums.first);
  }
};

}  // namespace serval::device
