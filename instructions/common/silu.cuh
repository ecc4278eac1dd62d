// The activation between gate and up as tile order computes it (vm/device/sm90/shared.cuh).
#pragma once

#include "vm/ptx/math.cuh"

namespace serval::device {

__device__ __forceinline__ float silu_times(float gate, float up) {
  return __fdividef(gate, 1.0F + ptx::exp(-gate)) * up;
}

}  // namespace serval::device
