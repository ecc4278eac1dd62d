#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/qkv_project/op.h"

namespace serval::device {

template <>
struct DeviceOp<QkvProject> : MatvecOp<DeviceOp<QkvProject>> {
  static constexpr uint32_t kMatrices = 1;

  static __device__ __forceinline__ uint32_t cols(const QkvProject& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const QkvProject& op) {
    return projected_cols(op) / kUnitRows;
  }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer, const QkvProject& op) {
    return {.activations = tensor<&QkvProject::weighted, const std::byte>(buffer),
            .squares = tensor<&QkvProject::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .logits_only = false};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const QkvProject& op,
                                                           uint32_t, uint32_t& unit) {
    const uint32_t q_units = op.q_rows / kUnitRows, kv_units = op.kv_rows / kUnitRows;
    if (unit < q_units) return tensor<&QkvProject::wq, const std::byte>(buffer);
    unit -= q_units;
    if (unit < kv_units) return tensor<&QkvProject::wk, const std::byte>(buffer);
    unit -= kv_units;
    return tensor<&QkvProject::wv, const std::byte>(buffer);
  }

  template <class Role>
  static __device__ __forceinline__ void store_output(const Role& role, const QkvProject& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched&) {
    if (!out.wanted) return;
    ptx::store_relaxed(tensor<&QkvProject::projected, float>(*role.buffer) +
                           size_t{out.row} * projected_cols(op) + (op.first_unit + out.unit) * kUnitRows +
                           out.row_of_unit,
                       sums.first);
  }
};

}  // namespace serval::device
