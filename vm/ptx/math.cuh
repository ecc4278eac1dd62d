// Fast arithmetic on floats.
#pragma once

#include <cstdint>

namespace serval::ptx {

// Base-2 exponential, within 2 ulp; results below 2^-126 are 0.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// a + b; subnormal inputs and sums are flushed to 0, as in tensor_add().
__device__ __forceinline__ float add_flushed(float a, float b) {
  float sum;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}
// e^x. The error grows with |x|: half an ulp of x log2(e) in the exponent.
__device__ __forceinline__ float exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  return exp2(x * kLog2E);
}

}  // namespace serval::ptx
