// The kernel of kernels/rotary.h. A warp turns vectors that follow each other: it loads all of them first, so
// that enough bytes are in flight, and keeps the angles while the token stays the same. Results
// leave L2 before other data does.
#pragma once

#include "kernels/rotary.h"
#include "vm/ptx/ptx.cuh"
#include "vm/tiles/ops/register/segment.cuh"
#include "vm/tiles/sm90/launch.h"

namespace serval::kernels {

using namespace tiles;

struct RotaryArguments {
  const uint4* x;
  uint4* out;
  const float *cos, *sin;
  uint32_t vectors, heads, positions;
};
inline RotaryArguments rotary_arguments(const uint16_t* x, const float* cos, const float* sin, uint16_t* out,
                                        const RotaryShape& shape) {
  return {reinterpret_cast<const uint4*>(x),
          reinterpret_cast<uint4*>(out),
          cos,
          sin,
          shape.tokens * shape.heads,
          shape.heads,
          shape.positions};
}

__device__ __forceinline__ Segment load_angles(const float* from) {
  Segment out;
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const uint4 four = ptx::load_constant(reinterpret_cast<const uint4*>(from) + i);
    out.pair[2 * i] = {__uint_as_float(four.x), __uint_as_float(four.y)};
    out.pair[2 * i + 1] = {__uint_as_float(four.z), __uint_as_float(four.w)};
  }
  return out;
}

// A thread turns kItems pairs of segments.
template <uint32_t kHeadDim, uint32_t kItems>
struct Rotary {
  static constexpr uint32_t kThreads = 128;
  static constexpr uint32_t kHalf = kHeadDim / 2 / Segment::kElements;  // segments of half a vector
  static constexpr uint32_t kVectors = kWarpThreads / kHalf;            // that a warp loads at a time
  static constexpr uint32_t kVectorsOfBlock = kThreads / kHalf * kItems;

  static __device__ void run(const RotaryArguments& g) {
    const uint32_t warp = blockIdx.x * (kThreads / kWarpThreads) + threadIdx.x / kWarpThreads;
    const uint32_t lane = threadIdx.x % kWarpThreads, segment = lane % kHalf;
    const uint32_t first = warp * kVectors * kItems + lane / kHalf;
    uint32_t head = first % g.heads, position = first / g.heads % g.positions;
    Segment cos, sin;
    const auto angles = [&] {
      const size_t at = (size_t{position} * kHalf + segment) * Segment::kElements;
      cos = load_angles(g.cos + at);
      sin = load_angles(g.sin + at);
    };
    uint4 left[kItems], right[kItems];
    const auto place = [&](uint32_t i) { return size_t{first + i * kVectors} * 2 * kHalf + segment; };
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      if (first + i * kVectors >= g.vectors) break;
      left[i] = ptx::load_streaming(g.x + place(i));
      right[i] = ptx::load_streaming(g.x + place(i) + kHalf);
    }
    angles();
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      if (first + i * kVectors >= g.vectors) break;
      const Segment u = unpack<Bf16>(left[i]), v = unpack<Bf16>(right[i]);
      const auto back = [](float a, float b, float c, float s) { return a * c - b * s; };
      const auto ahead = [](float a, float b, float c, float s) { return b * c + a * s; };
      ptx::store_streaming(g.out + place(i), pack<Bf16>(map_segments(back, u, v, cos, sin)));
      ptx::store_streaming(g.out + place(i) + kHalf, pack<Bf16>(map_segments(ahead, u, v, cos, sin)));
      head += kVectors;
      if (head < g.heads || i + 1 == kItems) continue;
      position = (position + head / g.heads) % g.positions;
      head %= g.heads;
      angles();
    }
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads)
    rotate(const __grid_constant__ RotaryArguments arguments) {
  ptx::wait_for_kernels_before();
  ptx::let_next_kernel_start();
  Kernel::run(arguments);
}

template <uint32_t kHeadDim, uint32_t kItems>
void launch_rotary(const RotaryArguments& arguments, cudaStream_t stream, bool overlaps = true) {
  using Kernel = Rotary<kHeadDim, kItems>;
  const uint32_t blocks = (arguments.vectors + Kernel::kVectorsOfBlock - 1) / Kernel::kVectorsOfBlock;
  if (blocks == 0) return;
  tiles::launch(rotate<Kernel>, {.blocks = blocks, .threads = Kernel::kThreads, .overlaps = overlaps},
                arguments, stream);
}

}  // namespace serval::kernels
