#pragma once

#include "instructions/common/matvec.cuh"
#include "instructions/common/silu.cuh"
#include "instructions/gate_up_silu/op.h"
#include "vm/layout/slab_image.h"

namespace serval::device {

template <>
struct DeviceOp<GateUpSilu> : MatvecOp<DeviceOp<GateUpSilu>> {
  static constexpr uint32_t kMatrices = 2;

  static __device__ __forceinline__ uint32_t cols(const GateUpSilu& op) { return op.hidden; }
  static __device__ __forceinline__ uint32_t units(const GateUpSilu& op) {
    return op.intermediate / kUnitRows;
  }
  static __device__ __forceinline__ matvec::Input input(const RecordBuffer& buffer, const GateUpSilu& op) {
    return {.activations = tensor<&GateUpSilu::weighted, const std::byte>(buffer),
            .squares = tensor<&GateUpSilu::squares, const float>(buffer),
            .epsilon = op.epsilon,
            .logits_only = op.logits_only != 0};
  }
  static __device__ __forceinline__ const std::byte* image(const RecordBuffer& buffer, const GateUpSilu&,
                                                           uint32_t matrix, uint32_t&) {
    return matrix == 0 ? tensor<&GateUpSilu::gate, const std::byte>(buffer)
                       : tensor<&GateUpSilu::up, const std::byte>(buffer);
  }

  template <class Role>
  static __device__ __forceinline__ void store_output(const Role& role, const GateUpSilu& op,
                                                      const matvec::Output& out, const matvec::Sums& sums,
                                                      const Fetched&) {
    const float gate = sums.first, up = sums.second;
    constexpr bool kTileOrder = Role::Config::kTileOrder;
    const float y = kTileOrder ? silu_times(gate, up) : gate / (1.0F + __expf(-gate)) * up;
    const float neighbour = __shfl_down_sync(~0u, y, 1);
    if (!out.wanted || out.row_of_unit % 2 != 0) return;
    const uint32_t col = (op.first_unit + out.unit) * kUnitRows + out.row_of_unit;
    const uint64_t at = kTileOrder ? slab_image::offset(op.max_rows, op.intermediate, out.row, col)
                                   : activation_image::offset(kTableRows, op.intermediate, out.row, col);
    ptx::store_relaxed(reinterpret_cast<uint32_t*>(tensor<&GateUpSilu::output, std::byte>(*role.buffer) + at),
                       ptx::pack_bf16(y, neighbour));
  }
};

}  // namespace serval::device
