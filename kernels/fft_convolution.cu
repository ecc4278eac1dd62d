// fft_convolution() and pack_filter() of kernels/fft_convolution.h.
#include "kernels/arguments.h"
#include "kernels/fft_convolution.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {
namespace {

void check(const char* name, uint32_t heads, uint32_t length) {
  require(length == 1024 || length == 4096, name,
          "length is " + std::to_string(length) + "; it must be 1024 or 4096");
  require(heads > 0, name, "heads is 0; it must be at least 1");
  require(heads <= INT32_MAX / kPackedFilterElements, name, "heads * 4096 must be less than 2^31");
}

// A thread packs what one thread of the convolution reads at a time: of the conjugate spectrum divided by the
// length, element k1 + R k2 at row k1 and column k2 of the tile.
template <uint32_t kRadix>
__global__ void __launch_bounds__(warpgroup::kThreads) pack(const float2* spectrum, uint4* packed) {
  using Kernel = FftConvolution<kRadix>;
  using Part = typename Kernel::Part;
  constexpr uint32_t kLength = Kernel::kLength;
  const float2* const of_head = spectrum + size_t{blockIdx.y} * (kLength / 2 + 1);
  const uint32_t warp = threadIdx.x / kWarpThreads, lane = threadIdx.x % kWarpThreads;
  uint32_t four[4];
  for (int i = 0; i < 4; ++i) {
    const uint32_t k1 = (warp * 16 + Part::row_of(lane, i / 2, 0)) % kRadix;
    const uint32_t k = k1 + kRadix * Part::col_of(lane, static_cast<int>(blockIdx.x), i % 2);
    const float2 v = of_head[k <= kLength / 2 ? k : kLength - k];
    four[i] = ptx::pack_bf16(v.x / kLength, (k <= kLength / 2 ? -v.y : v.y) / kLength);
  }
  packed[(size_t{blockIdx.y} * Kernel::kQuadrants + blockIdx.x) * warpgroup::kThreads + threadIdx.x] = {
      four[0], four[1], four[2], four[3]};
}

template <uint32_t kRadix>
void launch(const uint16_t* x, const uint32_t* packed, uint16_t* y, const FftConvolutionShape& shape,
            cudaStream_t stream) {
  using Kernel = FftConvolution<kRadix>;
  const auto map = [rows = uint64_t{shape.batch} * shape.heads * kRadix](const uint16_t* base) {
    return make_tensor_map<typename Kernel::Rows>(reinterpret_cast<const Bf16*>(base), rows, 64, 64);
  };
  pipeline::launch<Kernel>({map(x), map(y), packed, shape}, stream);
}

}  // namespace

void pack_filter(const float* spectrum, uint32_t* packed, uint32_t heads, uint32_t length,
                 cudaStream_t stream) {
  constexpr const char* kName = "pack_filter";
  check(kName, heads, length);
  require_aligned(spectrum, kName, "spectrum");
  require_aligned(packed, kName, "packed");
  require(heads <= UINT16_MAX, kName, "heads is " + std::to_string(heads) + "; it must be at most 65535");
  const dim3 blocks(FftConvolution<64>::kQuadrants, heads);
  (length == 4096 ? pack<64> : pack<16>)<<<blocks, warpgroup::kThreads, 0, stream>>>(
      reinterpret_cast<const float2*>(spectrum), reinterpret_cast<uint4*>(packed));
  SERVAL_CUDA_CHECK(cudaGetLastError());
}

void fft_convolution(const uint16_t* x, const uint32_t* packed, uint16_t* y, FftConvolutionShape shape,
                     cudaStream_t stream) {
  constexpr const char* kName = "fft_convolution";
  check(kName, shape.heads, shape.length);
  require(shape.batch > 0, kName, "batch is 0; it must be at least 1");
  require((uint64_t{shape.batch} + 16) * shape.heads * 64 <= INT32_MAX, kName,
          "(batch + 16) * heads * 64 must be less than 2^31");
  require_aligned(x, kName, "x");
  require_aligned(packed, kName, "packed");
  require_aligned(y, kName, "y");
  (shape.length == 4096 ? launch<64> : launch<16>)(x, packed, y, shape, stream);
}

}  // namespace serval::kernels
