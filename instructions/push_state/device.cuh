#pragma once

#include "instructions/push_state/op.h"
#include "vm/device/op.cuh"
#include "vm/ptx/memory.cuh"

namespace serval::device {

template <>
struct DeviceOp<PushState> : GroupOp {
  using Op = PushState;

  static __device__ __forceinline__ void run(const Op& op, const Group& group) {
    constexpr uint32_t kPieces = sizeof(PassRow) / sizeof(uint4);
    const auto* from = reinterpret_cast<const uint4*>(group.tensor<&Op::rows, const PassRow>());
    auto* to = reinterpret_cast<uint4*>(group.tensor<&Op::peer_rows, PassRow>());
#pragma unroll 1
    for (uint32_t i = group.thread; i < group.shape.limits.rows * kPieces; i += kGroupThreads)
      to[i] = ptx::load_relaxed(from + i);
    if (group.thread != 0) return;
    const auto* now = group.tensor<&Op::control, const PassControl>();
    auto* control = group.tensor<&Op::peer_control, PassControl>();
    control->passes_done = ptx::load_relaxed(&now->passes_done);
    control->passes_wanted = ptx::load_relaxed(&now->passes_wanted);
    control->stopped_by_host = ptx::load_relaxed(&now->stopped_by_host);
    // SMs of that rank may still be reading it at the previous pass's gate, as in `advance`.
    if (const uint32_t last = ptx::load_relaxed(&now->last_pass); last != kKeepRunning)
      ptx::store_relaxed_system(&control->last_pass, last);
  }
};

}  // namespace serval::device
