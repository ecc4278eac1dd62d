// The norms of kernels/residual_norm.h as a pipeline: rows are replaced by their sums and norms in shared
// memory.
#pragma once

#include "kernels/residual_norm.h"
#include "vm/tiles/ops/register/segment.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

// kWarps warps share a row; a thread has up to four segments of 8 of its elements.
template <bool kCentred, uint32_t kWarps>
struct StagedNorm {
  static constexpr uint32_t kConsumers = 2, kStages = 6, kBlocks = 1, kSegments = 4;
  static constexpr uint32_t kSegment = Segment::kElements;
  static constexpr uint32_t kRowThreads = kWarps * kWarpThreads;
  static constexpr uint32_t kRows = kConsumers * warpgroup::kWarps / kWarps;  // of a stage
  static constexpr uint32_t kMostWidth = kRowThreads * kSegments * kSegment;

  using Globals = ResidualNorm;
  using Task = uint32_t;  // the first of up to kRows rows
  struct Stage {
    alignas(128) uint4 x[kRows * kMostWidth / kSegment];
    uint4 residual[kRows * kMostWidth / kSegment];
  };
  struct Scratch {
    float partial[2][kConsumers * warpgroup::kWarps];
  };
  struct State {
    Segment v[kSegments];
    uint4 weight[kSegments], bias[kSegments];
    uint32_t reductions;
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) { return (g.rows + kRows - 1) / kRows; }
  static __device__ Task task(const Globals&, uint32_t index, uint32_t) { return index * kRows; }
  static __device__ uint32_t steps(const Globals&, Task) { return 1; }
  static __device__ uint32_t bytes(const Globals& g, Task row, uint32_t) {  // of x and residual
    return min(kRows, g.rows - row) * g.width * 2 * sizeof(Bf16);
  }
  static __device__ void load(const Globals& g, Task row, uint32_t, Stage& stage,
                              const pipeline::Landing& landing) {
    landing.load(stage.x, g.x + size_t{row} * g.width, bytes(g, row, 0) / 2);
    landing.load(stage.residual, g.residual + size_t{row} * g.width, bytes(g, row, 0) / 2);
  }
  static __device__ void store(const Globals& g, Task row, uint32_t, Stage& stage) {
    ptx::bulk_store(g.sum + size_t{row} * g.width, stage.residual, bytes(g, row, 0) / 2);
    ptx::bulk_store(g.out + size_t{row} * g.width, stage.x, bytes(g, row, 0) / 2);
  }
  // Calls fn(i, segment of the row) for the thread's segments.
  template <class Fn>
  static __device__ void for_segments(const Globals& g, const warpgroup::Place& place, Fn&& fn) {
#pragma unroll
    for (uint32_t i = 0; i < kSegments; ++i) {
      const uint32_t segment = place.thread() % kRowThreads + i * kRowThreads;
      if (segment * kSegment < g.width) fn(i, segment);
    }
  }
  static __device__ State begin(const Globals& g, const warpgroup::Place& place) {
    State state{};  // bias 0 for RMS norm
    for_segments(g, place, [&](uint32_t i, uint32_t segment) {
      state.weight[i] = ptx::load_constant(reinterpret_cast<const uint4*>(g.weight) + segment);
      if constexpr (kCentred)
        state.bias[i] = ptx::load_constant(reinterpret_cast<const uint4*>(g.bias) + segment);
    });
    return state;
  }
  // Sum over the threads of a row, in a fixed order.
  static __device__ float row_sum(float v, State& state, Scratch& scratch, const warpgroup::Place& place) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) v += __shfl_xor_sync(kAllLanes, v, distance);
    if constexpr (kWarps == 1) return v;
    const uint32_t warp = place.thread() / kWarpThreads;
    auto& partial = scratch.partial[state.reductions++ % 2];
    if (place.lane == 0) partial[warp] = v;
    ptx::named_barrier_sync(warpgroup::kFreeBarrier, kConsumers * warpgroup::kThreads);
    v = 0;
#pragma unroll
    for (uint32_t i = 0; i < kWarps; ++i) v += partial[warp / kWarps * kWarps + i];
    return v;
  }
  static __device__ void compute(const Globals& g, Task, uint32_t, Stage& stage, State& state,
                                 Scratch& scratch, const warpgroup::Place& place) {
    const uint32_t first = place.thread() / kRowThreads * (g.width / kSegment);  // segment of the stage
    const float width = static_cast<float>(g.width);
    float total = 0, squares = 0;
    for_segments(g, place, [&](uint32_t i, uint32_t segment) {
      const auto sum = [](float a, float b) { return a + b; };
      uint4& to = stage.residual[first + segment];
      to = pack<Bf16>(map_segments(sum, unpack<Bf16>(stage.x[first + segment]), unpack<Bf16>(to)));
      state.v[i] = unpack<Bf16>(to);
      total += add_up(state.v[i]);
    });
    const float mean = kCentred ? row_sum(total, state, scratch, place) / width : 0;
    for_segments(g, place, [&](uint32_t i, uint32_t) {
      state.v[i] = map_segments([&](float v) { return v - mean; }, state.v[i]);
      squares += add_up(map_segments([](float v) { return v * v; }, state.v[i]));
    });
    const float scale = rsqrtf(row_sum(squares, state, scratch, place) / width + g.epsilon);
    for_segments(g, place, [&](uint32_t i, uint32_t segment) {
      const auto norm = [&](float v, float weight, float bias) { return v * scale * weight + bias; };
      stage.x[first + segment] = pack<Bf16>(
          map_segments(norm, state.v[i], unpack<Bf16>(state.weight[i]), unpack<Bf16>(state.bias[i])));
    });
  }
};

}  // namespace serval::kernels
