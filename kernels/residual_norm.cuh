// The kernels of kernels/residual_norm.h. A block of kWarps warps has a row in its registers; several blocks
// run on an SM, so that some load while others reduce.
#pragma once

#include <algorithm>

#include "kernels/residual_norm.h"
#include "vm/ptx/ptx.cuh"
#include "vm/tiles/ops/register/segment.cuh"
#include "vm/tiles/sm90/launch.h"

namespace serval::kernels {

using namespace tiles;

// A thread has up to four segments of a row. kAhead: a block has every n-th row and loads the next one while
// it reduces; otherwise it has one row. Results leave L2 before other data does.
template <bool kCentred, uint32_t kWarps, bool kAhead>
struct Norm {
  static constexpr uint32_t kThreads = kWarps * kWarpThreads, kSegments = 4;
  static constexpr uint32_t kSegment = Segment::kElements;
  static constexpr uint32_t kMostWidth = kThreads * kSegments * kSegment;

  struct Row {
    uint4 x[kSegments], residual[kSegments];
  };
  struct Scratch {
    float partial[2][kWarps];  // of two successive sums
  };

  // Calls fn(i, segment of the row) for the thread's segments.
  template <class Fn>
  static __device__ __forceinline__ void for_segments(const ResidualNorm& g, Fn&& fn) {
#pragma unroll
    for (uint32_t i = 0; i < kSegments; ++i) {
      const uint32_t segment = threadIdx.x + i * kThreads;
      if (segment * kSegment < g.width) fn(i, segment);
    }
  }
  static __device__ __forceinline__ auto* segments(const uint16_t* matrix, const ResidualNorm& g,
                                                   uint32_t row) {
    return reinterpret_cast<const uint4*>(matrix + size_t{row} * g.width);
  }
  static __device__ __forceinline__ void load(Row& to, const ResidualNorm& g, uint32_t row) {
    for_segments(g, [&](uint32_t i, uint32_t segment) {
      to.x[i] = ptx::load_streaming(segments(g.x, g, row) + segment);
      to.residual[i] = ptx::load_streaming(segments(g.residual, g, row) + segment);
    });
  }
  static __device__ __forceinline__ void store(uint16_t* matrix, const ResidualNorm& g, uint32_t row,
                                               uint32_t segment, const uint4& value) {
    ptx::store_streaming(reinterpret_cast<uint4*>(matrix + size_t{row} * g.width) + segment, value);
  }
  // Sum over the block's threads, in a fixed order. Successive sums use the two `partial` in turn.
  static __device__ __forceinline__ float row_sum(float v, float (&partial)[kWarps]) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) v += __shfl_xor_sync(kAllLanes, v, distance);
    if constexpr (kWarps == 1) return v;
    if (threadIdx.x % kWarpThreads == 0) partial[threadIdx.x / kWarpThreads] = v;
    __syncthreads();
    v = 0;
#pragma unroll
    for (const float of_warp : partial) v += of_warp;
    return v;
  }
  static __device__ __forceinline__ void run(const ResidualNorm& g, Scratch& scratch) {
    Row row;
    uint4 sum[kSegments];
    uint32_t sums = 0;
    const float width = static_cast<float>(g.width);
    load(row, g, blockIdx.x);
#pragma unroll 1
    for (uint32_t number = blockIdx.x; number < g.rows; number += gridDim.x) {
      float total = 0, squares = 0;
      for_segments(g, [&](uint32_t i, uint32_t segment) {
        const auto add = [](float a, float b) { return a + b; };
        sum[i] = pack<Bf16>(map_segments(add, unpack<Bf16>(row.x[i]), unpack<Bf16>(row.residual[i])));
        store(g.sum, g, number, segment, sum[i]);
        total += add_up(unpack<Bf16>(sum[i]));
      });
      if (kAhead && number + gridDim.x < g.rows) load(row, g, number + gridDim.x);
      const float mean = kCentred ? row_sum(total, scratch.partial[sums++ % 2]) / width : 0;
      for_segments(g, [&](uint32_t i, uint32_t) {
        const auto square = [&](float v) { return (v - mean) * (v - mean); };
        squares += add_up(map_segments(square, unpack<Bf16>(sum[i])));
      });
      const float scale = rsqrtf(row_sum(squares, scratch.partial[sums++ % 2]) / width + g.epsilon);
      for_segments(g, [&](uint32_t i, uint32_t segment) {
        const Segment weight = unpack<Bf16>(ptx::load_constant(segments(g.weight, g, 0) + segment));
        Segment bias{};
        if constexpr (kCentred) bias = unpack<Bf16>(ptx::load_constant(segments(g.bias, g, 0) + segment));
        const auto norm = [&](float v, float w, float b) { return (v - mean) * scale * w + b; };
        store(g.out, g, number, segment, pack<Bf16>(map_segments(norm, unpack<Bf16>(sum[i]), weight, bias)));
      });
    }
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads)
    add_and_norm(const __grid_constant__ ResidualNorm arguments) {
  __shared__ typename Kernel::Scratch scratch;
  ptx::wait_for_kernels_before();
  ptx::let_next_kernel_start();
  Kernel::run(arguments, scratch);
}

template <class Kernel, bool kAhead>
void launch_norm_of(const ResidualNorm& arguments, cudaStream_t stream, bool overlaps) {
  uint32_t blocks = arguments.rows;
  if constexpr (kAhead) {
    int of_sm = 0;
    SERVAL_CUDA_CHECK(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, add_and_norm<Kernel>, Kernel::kThreads, 0));
    blocks = std::min(blocks, static_cast<uint32_t>(of_sm) * sm_count());
  }
  if (blocks == 0) return;
  tiles::launch(add_and_norm<Kernel>, {.blocks = blocks, .threads = Kernel::kThreads, .overlaps = overlaps},
                arguments, stream);
}
// With the fewest warps for a row of this width.
template <bool kCentred, bool kAhead>
void launch_norm(const ResidualNorm& arguments, cudaStream_t stream, bool overlaps = true) {
  const auto with = [&]<uint32_t kWarps>() {
    launch_norm_of<Norm<kCentred, kWarps, kAhead>, kAhead>(arguments, stream, overlaps);
  };
  constexpr uint32_t kMost = Norm<kCentred, 8, kAhead>::kMostWidth;
  if (arguments.width <= kMost / 8) return with.template operator()<1>();
  if (arguments.width <= kMost / 4) return with.template operator()<2>();
  if (arguments.width <= kMost / 2) return with.template operator()<4>();
  with.template operator()<8>();
}

}  // namespace serval::kernels
