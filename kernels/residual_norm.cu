// The norms of kernels/residual_norm.h: a stream of rows; their sums and norms replace them in shared memory.
#include "kernels/arguments.h"
#include "kernels/residual_norm.h"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {
namespace {

using namespace tiles;

// kWarps warps share a row; a thread has up to four segments of 8 of its elements.
template <bool kCentred, uint32_t kWarps>
struct Norm {
  static constexpr uint32_t kConsumers = 2, kStages = 6, kBlocks = 1, kSegments = 4, kSegment = 8;
  static constexpr uint32_t kRowThreads = kWarps * kWarpThreads;
  static constexpr uint32_t kRows = kConsumers * warpgroup::kWarps / kWarps;  // of a stage
  static constexpr uint32_t kMostWidth = kRowThreads * kSegments * kSegment;

  using Globals = ResidualNorm;
  struct Task {
    uint32_t row, rows;
  };
  struct Stage {
    alignas(128) uint4 x[kRows * kMostWidth / kSegment];
    uint4 residual[kRows * kMostWidth / kSegment];
  };
  struct Scratch {
    float partial[2][kConsumers * warpgroup::kWarps];
  };
  struct State {
    uint4 weight[kSegments], bias[kSegments];
    uint32_t reductions;
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) { return (g.rows + kRows - 1) / kRows; }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    return {index * kRows, min(kRows, g.rows - index * kRows)};
  }
  static __device__ uint32_t steps(const Globals&, const Task&) { return 1; }
  static __device__ uint32_t matrix_bytes(const Globals& g, const Task& task) {
    return task.rows * g.width * static_cast<uint32_t>(sizeof(Bf16));
  }
  static __device__ uint32_t bytes(const Globals& g, const Task& task, uint32_t) {
    return 2 * matrix_bytes(g, task);
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t, Stage& stage,
                              const pipeline::Landing& landing) {
    landing.load(stage.x, g.x + size_t{task.row} * g.width, matrix_bytes(g, task));
    landing.load(stage.residual, g.residual + size_t{task.row} * g.width, matrix_bytes(g, task));
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t, Stage& stage) {
    ptx::bulk_store(g.sum + size_t{task.row} * g.width, stage.residual, matrix_bytes(g, task));
    ptx::bulk_store(g.out + size_t{task.row} * g.width, stage.x, matrix_bytes(g, task));
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
    State state{};
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
    float(&partial)[kConsumers * warpgroup::kWarps] = scratch.partial[state.reductions++ % 2];
    if (place.lane == 0) partial[warp] = v;
    ptx::named_barrier_sync(warpgroup::kFreeBarrier, kConsumers * warpgroup::kThreads);
    v = 0;
#pragma unroll
    for (uint32_t i = 0; i < kWarps; ++i) v += partial[warp / kWarps * kWarps + i];
    return v;
  }
  static __device__ void compute(const Globals& g, const Task&, uint32_t, Stage& stage, State& state,
                                 Scratch& scratch, const warpgroup::Place& place) {
    const uint32_t first = place.thread() / kRowThreads * (g.width / kSegment);  // segment of the stage
    float2 v[kSegments][kSegment / 2] = {};
    float total = 0, squares = 0;
    for_segments(g, place, [&](uint32_t i, uint32_t segment) {
      uint4 x = stage.x[first + segment], sum = stage.residual[first + segment];
#pragma unroll
      for (uint32_t j = 0; j < kSegment / 2; ++j) {
        uint32_t& pair = (&sum.x)[j];
        const uint32_t other = (&x.x)[j];
        pair = ptx::pack_bf16(ptx::bf16_low(pair) + ptx::bf16_low(other),
                              ptx::bf16_high(pair) + ptx::bf16_high(other));
        v[i][j] = {ptx::bf16_low(pair), ptx::bf16_high(pair)};
        total += v[i][j].x + v[i][j].y;
      }
      stage.residual[first + segment] = sum;
    });
    const float width = static_cast<float>(g.width);
    const float mean = kCentred ? row_sum(total, state, scratch, place) / width : 0;
    for_segments(g, place, [&](uint32_t i, uint32_t) {
#pragma unroll
      for (float2& pair : v[i]) {
        pair = {pair.x - mean, pair.y - mean};
        squares += pair.x * pair.x + pair.y * pair.y;
      }
    });
    const float scale = rsqrtf(row_sum(squares, state, scratch, place) / width + g.epsilon);
    for_segments(g, place, [&](uint32_t i, uint32_t segment) {
      uint4 out;
#pragma unroll
      for (uint32_t j = 0; j < kSegment / 2; ++j) {
        const uint32_t weight = (&state.weight[i].x)[j], bias = (&state.bias[i].x)[j];
        (&out.x)[j] = ptx::pack_bf16(
            v[i][j].x * scale * ptx::bf16_low(weight) + (kCentred ? ptx::bf16_low(bias) : 0),
            v[i][j].y * scale * ptx::bf16_high(weight) + (kCentred ? ptx::bf16_high(bias) : 0));
      }
      stage.x[first + segment] = out;
    });
  }
};

// The fewest warps for a row of this width.
template <bool kCentred>
void launch(const char* name, const ResidualNorm& a, cudaStream_t stream) {
  constexpr uint32_t kMost = Norm<kCentred, 8>::kMostWidth;
  require_multiple(a.width, kAlignment / sizeof(Bf16), name, "width");
  require(a.width <= kMost, name, "width is " + std::to_string(a.width) + "; it must be at most 8192");
  require_aligned(a.x, name, "x");
  require_aligned(a.residual, name, "residual");
  require_aligned(a.weight, name, "weight");
  if (kCentred) require_aligned(a.bias, name, "bias");
  require_aligned(a.sum, name, "sum");
  require_aligned(a.out, name, "out");
  if (a.width <= kMost / 8) return pipeline::launch<Norm<kCentred, 1>>(a, stream);
  if (a.width <= kMost / 4) return pipeline::launch<Norm<kCentred, 2>>(a, stream);
  if (a.width <= kMost / 2) return pipeline::launch<Norm<kCentred, 4>>(a, stream);
  pipeline::launch<Norm<kCentred, 8>>(a, stream);
}

}  // namespace

void residual_rms_norm(const ResidualNorm& arguments, cudaStream_t stream) {
  launch<false>("residual_rms_norm", arguments, stream);
}
void residual_layer_norm(const ResidualNorm& arguments, cudaStream_t stream) {
  launch<true>("residual_layer_norm", arguments, stream);
}

}  // namespace serval::kernels
