// The kernel of kernels/rotary.h as a pipeline: a stream of head vectors, turned in shared memory.
#pragma once

#include "kernels/rotary.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

template <uint32_t kHeadDim>
struct StagedRotary {
  static constexpr uint32_t kConsumers = 2, kStages = 6, kBlocks = 1;
  static constexpr uint32_t kStageBytes = 32 * 1024, kVectorBytes = kHeadDim * sizeof(Bf16);
  static constexpr uint32_t kVectors = kStageBytes / kVectorBytes;      // of a stage
  static constexpr uint32_t kHalf = kHeadDim / 2 / Segment::kElements;  // segments of half a vector

  struct Globals {
    const std::byte* x;
    std::byte* out;
    const float *cos, *sin;
    uint32_t vectors, heads, positions;
  };
  struct Task {
    uint32_t first, vectors;
  };
  struct Stage {
    alignas(128) uint4 segments[kVectors][2][kHalf];
  };
  struct Scratch {};
  struct State {};

  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return (g.vectors + kVectors - 1) / kVectors;
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    return {index * kVectors, min(kVectors, g.vectors - index * kVectors)};
  }
  static __device__ uint32_t steps(const Globals&, const Task&) { return 1; }
  static __device__ uint32_t bytes(const Globals&, const Task& task, uint32_t) {
    return task.vectors * kVectorBytes;
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t, Stage& stage,
                              const pipeline::Landing& landing) {
    landing.load(&stage, g.x + size_t{task.first} * kVectorBytes, task.vectors * kVectorBytes);
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t, Stage& stage) {
    ptx::bulk_store(g.out + size_t{task.first} * kVectorBytes, &stage, task.vectors * kVectorBytes);
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) { return {}; }

  // Each thread turns kItems pairs of segments. It loads all angles first; vectors after the task's last one
  // are turned, too, but not stored.
  static __device__ void compute(const Globals& g, const Task& task, uint32_t, Stage& stage, State&, Scratch&,
                                 const warpgroup::Place& place) {
    constexpr uint32_t kThreads = kConsumers * warpgroup::kThreads, kItems = kVectors * kHalf / kThreads;
    const uint32_t segment = place.thread() % kHalf, first = place.thread() / kHalf;
    Segment cos[kItems], sin[kItems];
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t vector = task.first + first + i * (kThreads / kHalf);
      const size_t angle =
          size_t{vector / g.heads % g.positions} * (kHeadDim / 2) + segment * Segment::kElements;
      cos[i] = load_angles(g.cos + angle);
      sin[i] = load_angles(g.sin + angle);
    }
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      auto& vector = stage.segments[first + i * (kThreads / kHalf)];
      const Segment u = unpack<Bf16>(vector[0][segment]), v = unpack<Bf16>(vector[1][segment]);
      const auto back = [](float a, float b, float c, float s) { return a * c - b * s; };
      const auto ahead = [](float a, float b, float c, float s) { return b * c + a * s; };
      vector[0][segment] = pack<Bf16>(map_segments(back, u, v, cos[i], sin[i]));
      vector[1][segment] = pack<Bf16>(map_segments(ahead, u, v, cos[i], sin[i]));
    }
  }
};

}  // namespace serval::kernels
