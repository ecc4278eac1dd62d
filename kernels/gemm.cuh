// The products of kernels/gemm.h: tiles of 128 × 256 outputs, 128 bytes of terms a step. A cluster of two
// blocks computes 256 × 256: each loads its own rows of a, and half of the rows of b for both.
#pragma once

#include "kernels/gemm.h"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

template <Element T, uint32_t kBlocksOf = 2>
struct Gemm {
  static constexpr uint32_t kConsumers = 2, kStages = 4, kBlocks = kBlocksOf;
  static constexpr uint32_t kRows = 128, kCols = 256, kTerms = warpgroup::kPanelCols<T>;
  static constexpr uint32_t kRowsOfConsumer = kRows / kConsumers;
  static constexpr uint32_t kGroupRows = 2048 / (kRows * kBlocks);  // of tiles that run together

  using Operand = SharedTile<T, kRows, kTerms>;
  using Output = SharedTile<Bf16, kRowsOfConsumer, 64>;
  using Sums = warpgroup::Accumulator<kRowsOfConsumer, kCols>;
  struct Globals {
    TensorMap<Operand> a, b;
    TensorMap<Output> c;
    GemmShape shape;
    float scale;
  };
  struct Task {
    uint32_t row, col;
  };
  struct Stage {
    Operand a;
    SharedTile<T, kCols, kTerms> b;
  };
  struct Scratch {
    Output out[kConsumers][2];
  };

  static __host__ __device__ uint32_t count(uint32_t size, uint32_t tile) { return (size + tile - 1) / tile; }
  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return count(g.shape.m, kRows * kBlocks) * count(g.shape.n, kCols);
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t block) {
    const auto [row, col] = pipeline::tile_in_groups(index, count(g.shape.m, kRows * kBlocks),
                                                     count(g.shape.n, kCols), kGroupRows);
    return {(row * kBlocks + block) * kRows, col * kCols};
  }
  static __device__ uint32_t steps(const Globals& g, const Task&) { return count(g.shape.k, kTerms); }

  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    landing.load(stage.a, g.a, task.row, step * kTerms);
    if constexpr (kBlocks == 2) {
      const uint32_t half = landing.block * kRows;
      landing.load_to_both(warpgroup::rows_of<kRows>(stage.b, half), g.b, task.col + half, step * kTerms);
    } else {
      for (uint32_t half = 0; half < kCols; half += kRows)
        landing.load(warpgroup::rows_of<kRows>(stage.b, half), g.b, task.col + half, step * kTerms);
    }
  }
  static __device__ auto compute(warpgroup::InFlight<Sums>&& sums, const Stage& stage,
                                 const warpgroup::Place& place) {
    const auto& rows = warpgroup::rows_of<kRowsOfConsumer>(stage.a, place.index * kRowsOfConsumer);
    return mma_abt_async(std::move(sums), rows, stage.b);
  }
  static __device__ void finish(const Globals& g, const Task& task, Sums& sums, Scratch& scratch,
                                const warpgroup::Place& place) {
    if constexpr (Element8<T>) warpgroup::map(sums, sums, [&](float v) { return v * g.scale; });
    warpgroup::store_through(scratch.out[place.index], g.c, task.row + place.index * kRowsOfConsumer,
                             task.col, sums, place);
  }
};

}  // namespace serval::kernels
