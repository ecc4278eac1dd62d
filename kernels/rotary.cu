// rotary() of kernels/rotary.h.
#include "kernels/arguments.h"
#include "kernels/rotary.cuh"

namespace serval::kernels {

void rotary(const uint16_t* x, const float* cos, const float* sin, uint16_t* out, RotaryShape shape,
            cudaStream_t stream) {
  constexpr const char* kName = "rotary";
  require(shape.head_dim == 64 || shape.head_dim == 128, kName,
          "head_dim is " + std::to_string(shape.head_dim) + "; it must be 64 or 128");
  require(shape.heads > 0 && shape.positions > 0, kName, "heads and positions must be at least 1");
  require(uint64_t{shape.tokens} * shape.heads < UINT32_MAX - UINT16_MAX, kName,
          "tokens * heads must be less than 2^32 - 2^16");
  require_aligned(x, kName, "x");
  require_aligned(cos, kName, "cos");
  require_aligned(sin, kName, "sin");
  require_aligned(out, kName, "out");
  const RotaryArguments arguments = rotary_arguments(x, cos, sin, out, shape);
  (shape.head_dim == 64 ? launch_rotary<64, 8> : launch_rotary<128, 8>)(arguments, stream, true);
}

}  // namespace serval::kernels
