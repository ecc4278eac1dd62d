// Residual sum followed by a norm of each row, on a Hopper GPU.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace serval::kernels {

// All matrices [rows, width], weight and bias [width], in bf16, contiguous, in GPU memory, at multiples of 16
// bytes; width is a multiple of 8 and at most 8,192.
struct ResidualNorm {
  const uint16_t *x, *residual;
  const uint16_t *weight, *bias;  // bias: of layer norm only
  uint16_t* sum;                  // x + residual, rounded to bf16; may be x or residual
  uint16_t* out;                  // the norm of that; may be x or residual
  uint32_t rows, width;
  float epsilon;
};

// out = sum / sqrt(mean(sum²) + epsilon) × weight, in fp32, rounded once. Begins in `stream`. Throws Error:
// kUsage for arguments that break these rules, kRuntime if CUDA refuses.
void residual_rms_norm(const ResidualNorm& arguments, cudaStream_t stream);
// out = (sum − mean) / sqrt(variance + epsilon) × weight + bias, likewise.
void residual_layer_norm(const ResidualNorm& arguments, cudaStream_t stream);

}  // namespace serval::kernels
