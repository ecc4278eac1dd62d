// Fourier transforms as products: matrices of roots of unity in shared memory, and complex operands.
#pragma once

#include "vm/tiles/sm90/warpgroup/ops.cuh"

namespace serval::tiles::warpgroup {

// The symmetric complex matrix F[j, k] = exp(-2πi j k / n) of 64 × 64, n at most 64, as a real one: M = [Re
// F, Im F; -Im F, Re F]. If n is less than 64, F has such matrices of n × n on its diagonal, and 0 elsewhere.
template <Element16 T>
using FourierMatrix = SharedTile<T, 128, 128>;
// Cosine and sine of 2π i / 64.
using Roots = float2[64];

// Called by 64 threads or more, which then meet at a barrier.
__device__ __forceinline__ void fill_roots(Roots& roots, uint32_t thread) {
  if (thread < 64) sincospif(static_cast<float>(thread) / 32, &roots[thread].y, &roots[thread].x);
}
// Called by `threads` threads. Products may read the matrix after fence_proxy_async_shared() in each of them
// and then a barrier.
template <uint32_t kSize, Element16 T>
__device__ void fill_fourier(FourierMatrix<T>& to, const Roots& roots, uint32_t thread, uint32_t threads) {
  static_assert(kSize > 0 && 64 % kSize == 0, "fill_fourier: the size must divide 64");
#pragma unroll 1
  for (uint32_t pair = thread; pair < 128 * 64; pair += threads) {
    const uint32_t row = pair / 64, col = pair % 64 * 2;
    const auto element = [&](uint32_t k) -> float {
      const uint32_t i = row % 64, j = k % 64;
      const float2 root = roots[i * j % kSize * (64 / kSize)];
      if (i / kSize != j / kSize) return 0;
      return row / 64 == k / 64 ? root.x : row < 64 ? -root.y : root.y;
    };
    *reinterpret_cast<uint32_t*>(to.panel[col / 64].at(row, col % 64)) =
        tiles::detail::pack<T>({element(col), element(col + 1)});
  }
}

// [re, im] as a left operand: `re` and `im` are parts of accumulators.
template <Element16 T, class Part>
__device__ __forceinline__ auto beside(const Part& re, const Part& im) {
  RegisterTile<T, kRowsOfProduct, 2 * Part::kCols> out;
  constexpr int kHalf = Part::kQuadrantCols;
#pragma unroll
  for (int r = 0; r < Part::kQuadrantRows; ++r) {
#pragma unroll
    for (int c = 0; c < kHalf; ++c) {
      out.part[0].quadrant[r][c] = tiles::detail::pack<T>(re.quadrant[r][c]);
      out.part[0].quadrant[r][kHalf + c] = tiles::detail::pack<T>(im.quadrant[r][c]);
    }
  }
  return out;
}

}  // namespace serval::tiles::warpgroup
