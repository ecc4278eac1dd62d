// The kernel of attention(): tiles of 64 queries for each of two or three warpgroups, and blocks of 128 keys.
// Step i multiplies the keys of block i while the values of the block before are multiplied; a warpgroup
// computes its exponentials under its values' products and under the products of the other warpgroups.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_tiles.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

// kWaitsAfter: products of the values end after the exponentials.
template <uint32_t kHeadDim, bool kCausal, uint32_t kConsumersOf, uint32_t kKeysOf = 128,
          bool kWaitsAfter = true>
struct Attention {
  static constexpr uint32_t kConsumers = kConsumersOf, kBlocks = 1;
  static constexpr uint32_t kKeys = kKeysOf, kRowsOfConsumer = 64, kRows = kRowsOfConsumer * kConsumers;

  static constexpr uint32_t kStages = kHeadDim * kKeys == 64 * 128 ? 4 : 3;
  static constexpr uint32_t kScratches = kHeadDim == 128 ? 1 : 2;

  using Tile = warpgroup::SharedTile<Bf16, kKeys, kHeadDim>;
  using Queries = warpgroup::SharedTile<Bf16, kRowsOfConsumer, kHeadDim>;
  using Scores = warpgroup::Accumulator<kRowsOfConsumer, kKeys>;
  using Out = warpgroup::Accumulator<kRowsOfConsumer, kHeadDim>;
  using OfRow = warpgroup::RowVector<Scores>;

  struct Globals {
    TensorMap<typename Queries::Panel> q;
    TensorMap<typename Tile::Panel> k, v;
    Bf16* out;
    float* log_sums;  // or null
    AttentionShape shape;
    float scale;  // of base-2 exponents
  };
  struct Task {
    uint32_t row, first_query, first_key;  // row in the head; rows of q and k where the head begins
    uint32_t blocks;                       // of keys
  };
  struct Stage {
    Tile k, v;  // v: of the block before
  };
  struct Scratch {
    Queries q[kConsumers];
  };
  static constexpr uint32_t kTaskBytes = sizeof(Scratch);
  struct State {
    Out out;
    warpgroup::RegisterTile<Bf16, kRowsOfConsumer, kKeys> weights;
    OfRow max, sum;  // sum: of the lane's elements
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return blocks_of(g.shape.length, kRows) * g.shape.batch * g.shape.heads;
  }
  // Blocks that rows before `end` see.
  static __device__ uint32_t blocks_before(const Globals& g, uint32_t end) {
    return blocks_of(kCausal ? min(g.shape.length, end) : g.shape.length, kKeys);
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    const uint32_t tiles = blocks_of(g.shape.length, kRows);
    const HeadTile place = head_tile<kCausal>(index, g.shape.batch * g.shape.heads, tiles);
    const uint32_t row = (tiles - 1 - place.tile) * kRows;
    const uint32_t kv_head = place.head / (g.shape.heads / g.shape.kv_heads);
    return {row, place.head * g.shape.length, kv_head * g.shape.length, blocks_before(g, row + kRows)};
  }
  static __device__ uint32_t steps(const Globals&, const Task& task) { return task.blocks + 1; }
  static __device__ uint32_t bytes(const Globals&, const Task& task, uint32_t step) {
    return step == 0 || step == task.blocks ? sizeof(Tile) : 2 * sizeof(Tile);
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t key = task.first_key + step * kKeys;
    for (int p = 0; p < Tile::kPanels; ++p) {
      const uint32_t col = p * Tile::Panel::kCols;
      if (step < task.blocks) landing.load(stage.k.panel[p], g.k, key, col);
      if (step > 0) landing.load(stage.v.panel[p], g.v, key - kKeys, col);
    }
  }
  static __device__ void load_task(const Globals& g, const Task& task, Scratch& scratch,
                                   const pipeline::Landing& landing) {
    for (uint32_t i = 0; i < kConsumers; ++i) {
      for (int p = 0; p < Queries::kPanels; ++p)
        landing.load(scratch.q[i].panel[p], g.q, task.first_query + task.row + i * kRowsOfConsumer,
                     p * Queries::Panel::kCols);
    }
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) { return {}; }

  // Keys that a row does not see get the weight 0: those after the row itself, and after the head's end.
  static __device__ __forceinline__ void hide(const Globals& g, uint32_t row, uint32_t key, Scores& scores,
                                              const warpgroup::Place& place) {
    if (key + kKeys <= (kCausal ? min(g.shape.length, row + 1) : g.shape.length)) return;
    warpgroup::RowVector<Scores, int32_t> last;  // key that the row sees
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t end = g.shape.length - 1;
      const uint32_t own = row + Scores::first_row(0, place.warp) + Scores::Part::row_of(place.lane, r, 0);
      last.part[0].quadrant[r] = static_cast<int32_t>((kCausal ? min(end, own) : end) - key);
    }
    warpgroup::map_rows(scores, scores, last, [](float v, int32_t most, uint32_t col) {
      return static_cast<int32_t>(col) <= most ? v : -INFINITY;
    });
  }
  // scores = weights; the rows' maxima and the lane's sums take them in. Returns the factor of earlier sums.
  static __device__ __forceinline__ OfRow weigh(Scores& scores, State& state, float scale) {
    OfRow most, factor;
    warpgroup::reduce_rows<Max>(most, scores);
    warpgroup::map(most, most, state.max, [](float a, float b) { return fmaxf(a, b); });
    warpgroup::map(factor, state.max, most,
                   [&](float old, float now) { return ptx::exp2((old - now) * scale); });
    state.max = most;
    warpgroup::map(most, most, most, [&](float v, float) { return v * scale; });
    warpgroup::map_rows(scores, scores, most,
                        [&](float v, float m, uint32_t) { return ptx::exp2(fmaf(v, scale, -m)); });
    warpgroup::map(state.sum, state.sum, factor, [](float s, float f) { return s * f; });
    warpgroup::accumulate_rows<Sum>(state.sum, scores);
    return factor;
  }
  static __device__ void compute(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                                 State& state, Scratch& scratch, const warpgroup::Place& place) {
    const auto& q = scratch.q[place.index];
    const uint32_t row = task.row + place.index * kRowsOfConsumer, key = step * kKeys;
    if (row >= g.shape.length) return;  // this warpgroup has no rows
    const uint32_t blocks = min(task.blocks, blocks_before(g, row + kRowsOfConsumer));  // of the warpgroup
    if (step == 0) {
      Scores scores = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k).wait();
      hide(g, row, key, scores, place);
      for (int r = 0; r < 2; ++r)
        state.max.part[0].quadrant[r] = -INFINITY, state.sum.part[0].quadrant[r] = 0;
      weigh(scores, state, g.scale);
      state.out = warpgroup::zeros<Out>();
      warpgroup::convert(state.weights, scores);
    } else if (step < blocks) {
      auto products = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k);
      auto out = mma_ab_async(std::move(state.out), std::move(state.weights), stage.v);
      Scores scores = std::move(products).template wait<1>();
      hide(g, row, key, scores, place);
      const OfRow factor = weigh(scores, state, g.scale);
      if constexpr (kWaitsAfter) {
        state.out = std::move(out).wait_after(state.sum.part[0].quadrant[0] + state.sum.part[0].quadrant[1]);
      } else {
        state.out = std::move(out).wait();
      }
      rescale(state.out, factor);
      warpgroup::convert(state.weights, scores);
    } else if (step == blocks) {
      state.out = mma_ab_async(std::move(state.out), std::move(state.weights), stage.v).wait();
    }
  }
  static __device__ __forceinline__ void rescale(Out& out, const OfRow& factor) {
    warpgroup::RowVector<Out> of_out;
    for (int r = 0; r < 2; ++r) of_out.part[0].quadrant[r] = factor.part[0].quadrant[r];
    warpgroup::map_rows(out, out, of_out, [](float v, float f, uint32_t) { return v * f; });
  }
  static __device__ void finish(const Globals& g, const Task& task, State& state, Scratch&,
                                const warpgroup::Place& place) {
    warpgroup::reduce_lanes<Sum>(state.sum);
    OfRow inverse;
    warpgroup::map(inverse, state.sum, state.sum, [](float v, float) { return 1 / v; });
    rescale(state.out, inverse);
    const uint32_t row = task.row + place.index * kRowsOfConsumer;
    const uint32_t rows = g.shape.length - min(row, g.shape.length), first = task.first_query + row;
    warpgroup::store_rows(g.out + size_t{first} * kHeadDim, kHeadDim, rows, state.out, place);
    if (g.log_sums == nullptr || place.lane % kPairLanes != 0) return;
    constexpr float kLn2 = 0.693147181F;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t own = Scores::first_row(0, place.warp) + Scores::Part::row_of(place.lane, r, 0);
      const float most = state.max.part[0].quadrant[r], sum = state.sum.part[0].quadrant[r];
      if (own < rows) g.log_sums[first + own] = most * g.scale * kLn2 + logf(sum);
    }
  }
};

}  // namespace serval::kernels
