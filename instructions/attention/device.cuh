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
    using namespace attention;
    if (op.head_dim == 128) {
      Worker<128, 8>(op, group).run();
    } else if (most_rows_of_a_slot(group) * (op.q_heads / op.kv_heads) <= 8) {
      Worker<64, 8>(op, group).run();
    } else {
      Worker<64, 16>(op, group).run();
    }
  }
};

}  // namespace serval::device
