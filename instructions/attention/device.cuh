#pragma once

#include "instructions/attention/worker.cuh"
#include "vm/device/op.cuh"

namespace serval::device {

template <>
struct DeviceOp<Attention> : GroupOp {
  static __device__ bool in_range(const Attention& op) {
    return op.kv_head < op.kv_heads && op.lane < op.lanes;
  }

  static __device__ __forceinline__ void run(const Attention& op, const Group& group) {
    if (op.head_dim == 64) {
      attention::Worker<64, 3>(op, group).run();
    } else {
      attention::Worker<128, 1>(op, group).run();
    }
  }
};

}  // namespace serval::device
