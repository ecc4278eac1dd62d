// Rotary position embedding on a Hopper GPU.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// x [tokens, heads, head_dim] in bf16, head_dim 64 or 128. Channel i < head_dim / 2 forms a pair with channel
// i + head_dim / 2, as in Llama.
struct RotaryShape {
  uint32_t tokens, heads, head_dim;
  uint32_t positions;  // rows of the angles; token t has row t mod positions
};

// out = x, each pair (u, v) turned: (u cos - v sin, v cos + u sin), computed in fp32 and rounded once. cos
// and sin [positions, head_dim / 2] in fp32. All in GPU memory, contiguous, at multiples of 16 bytes; out may
// be x. Begins in `stream`. Throws Error: kUsage for arguments that break these rules, kRuntime if CUDA
// refuses.
void rotary(const uint16_t* x, const float* cos, const float* sin, uint16_t* out, RotaryShape shape,
            cudaStream_t stream);

}  // namespace serval::kernels
