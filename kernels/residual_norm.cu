// The norms of kernels/residual_norm.h.
#include "kernels/arguments.h"
#include "kernels/residual_norm.cuh"

namespace serval::kernels {
namespace {

template <bool kCentred>
void launch(const char* name, const ResidualNorm& a, cudaStream_t stream) {
  require_multiple(a.width, kAlignment / sizeof(Bf16), name, "width");
  require(a.width <= 8192, name, "width is " + std::to_string(a.width) + "; it must be at most 8192");
  require_aligned(a.x, name, "x");
  require_aligned(a.residual, name, "residual");
  require_aligned(a.weight, name, "weight");
  if (kCentred) require_aligned(a.bias, name, "bias");
  require_aligned(a.sum, name, "sum");
  require_aligned(a.out, name, "out");
  // A block for each row is fastest, but too many blocks for short rows.
  constexpr uint32_t kLeastOfRowABlock = 2048;
  (a.width < kLeastOfRowABlock ? launch_norm<kCentred, true> : launch_norm<kCentred, false>)(a, stream, true);
}

}  // namespace

void residual_rms_norm(const ResidualNorm& arguments, cudaStream_t stream) {
  launch<false>("residual_rms_norm", arguments, stream);
}
void residual_layer_norm(const ResidualNorm& arguments, cudaStream_t stream) {
  launch<true>("residual_layer_norm", arguments, stream);
}

}  // namespace serval::kernels
