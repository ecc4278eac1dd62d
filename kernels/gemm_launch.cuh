// Host side of the products of kernels/gemm.h: checks, and the tensor maps.
#pragma once

#include "kernels/arguments.h"
#include "kernels/gemm.cuh"
#include "vm/tiles/sm90/make_tensor_map.h"

namespace serval::kernels {

// Throws Error(kUsage) for what the copy engine cannot address.
template <class T>
void check_gemm(const T* a, const T* b, const Bf16* c, const GemmShape& shape) {
  constexpr const char* kName = Element8<T> ? "gemm_e4m3" : "gemm_bf16";
  require(shape.m > 0, kName, "m is 0; it must be at least 1");
  require_multiple(shape.n, kAlignment / sizeof(Bf16), kName, "n");
  require_multiple(shape.k, kAlignment / sizeof(T), kName, "k");
  require_aligned(a, kName, "a");
  require_aligned(b, kName, "b");
  require_aligned(c, kName, "c");
}

template <class T, uint32_t kBlocks = 2>
void launch_gemm(const T* a, const T* b, Bf16* c, float scale, GemmShape shape, cudaStream_t stream,
                 bool overlaps = true) {
  check_gemm(a, b, c, shape);
  using Kernel = Gemm<T, kBlocks>;
  const auto [m, n, k] = shape;
  pipeline::launch<Kernel>({make_tensor_map<typename Kernel::Operand>(a, m, k, k),
                            make_tensor_map<typename Kernel::Operand>(b, n, k, k),
                            make_tensor_map<typename Kernel::Output>(c, m, n, n), shape, scale},
                           stream, overlaps);
}

}  // namespace serval::kernels
