// The kernel of kernels/attention.h: tiles of 128 queries, 64 for each of two warpgroups, and blocks of 128
// keys, from the last to the first. Step i multiplies the keys of block i while the values of the block
// before are multiplied; a warpgroup computes its exponentials under its values' products and under the
// products of the other warpgroup.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_tiles.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

template <uint32_t kHeadDim, bool kCausal>
struct Attention {
  static constexpr uint32_t kConsumers = 2, kStages = kHeadDim == 128 ? 3 : 4, kBlocks = 1;
  static constexpr uint32_t kRows = 128, kKeys = 128, kRowsOfConsumer = kRows / kConsumers;
  static_assert(kRows == kKeys, "queries are loaded to the place of a stage's values");

  using Tile = warpgroup::SharedTile<Bf16, kKeys, kHeadDim>;
  using Panel = typename Tile::Panel;
  using Scores = warpgroup::Accumulator<kRowsOfConsumer, kKeys>;
  using Out = warpgroup::Accumulator<kRowsOfConsumer, kHeadDim>;
  using OfRow = warpgroup::RowVector<Scores>;

  struct Globals {
    TensorMap<Panel> q, k, v;
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
    Tile k, v;  // v: of the block before; in the first step the queries
  };
  struct Scratch {
    warpgroup::SharedTile<Bf16, kRowsOfConsumer, kHeadDim> q[kConsumers];
  };
  struct State {
    Out out;
    warpgroup::RegisterTile<Bf16, kRowsOfConsumer, kKeys> weights;
    OfRow max, sum;
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return blocks_of(g.shape.length, kRows) * g.shape.batch * g.shape.heads;
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    const uint32_t tiles = blocks_of(g.shape.length, kRows);
    const HeadTile place = head_tile<kCausal>(index, g.shape.batch * g.shape.heads, tiles);
    const uint32_t head = place.head, tile = tiles - 1 - place.tile;
    const uint32_t kv_head = head / (g.shape.heads / g.shape.kv_heads);
    return {tile * kRows, head * g.shape.length, kv_head * g.shape.length, kCausal ? tile + 1 : tiles};
  }
  static __device__ uint32_t steps(const Globals&, const Task& task) { return task.blocks + 1; }
  static __device__ uint32_t bytes(const Globals&, const Task& task, uint32_t step) {
    return step == task.blocks ? sizeof(Tile) : 2 * sizeof(Tile);
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t last = task.first_key + (task.blocks - 1) * kKeys;
    for (int p = 0; p < Tile::kPanels; ++p) {
      const uint32_t col = p * Panel::kCols;
      if (step < task.blocks) landing.load(stage.k.panel[p], g.k, last - step * kKeys, col);
      if (step == 0) {
        landing.load(stage.v.panel[p], g.q, task.first_query + task.row, col);
      } else {
        landing.load(stage.v.panel[p], g.v, last - (step - 1) * kKeys, col);
      }
    }
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) { return {}; }

  static __device__ void take_queries(const Stage& stage, Scratch& scratch, const warpgroup::Place& place) {
    place.sync();  // all warps have multiplied the queries before
    for (int p = 0; p < Tile::kPanels; ++p) {
      warpgroup::RegisterTile<Bf16, kRowsOfConsumer, Panel::kCols> rows;
      warpgroup::load(
          rows, warpgroup::rows_of<kRowsOfConsumer>(stage.v.panel[p], place.index * kRowsOfConsumer), place);
      warpgroup::store(scratch.q[place.index].panel[p], rows, place);
    }
    ptx::fence_proxy_async_shared();
    place.sync();
  }
  // Keys that a row does not see get the weight 0. Only the last block has any.
  static __device__ void mask(const Globals& g, const Task& task, Scores& scores,
                              const warpgroup::Place& place) {
    warpgroup::RowVector<Scores, uint32_t> last;  // key that the row sees
    const uint32_t row = task.row + place.index * kRowsOfConsumer + Scores::first_row(0, place.warp);
    const uint32_t block = (task.blocks - 1) * kKeys;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint32_t end = g.shape.length - 1, own = row + Scores::Part::row_of(place.lane, r, 0);
      last.part[0].quadrant[r] = (kCausal ? min(end, own) : end) - block;
    }
    warpgroup::map_rows(scores, scores, last,
                        [](float v, uint32_t most, uint32_t col) { return col <= most ? v : -INFINITY; });
  }
  // scores = weights; the rows' maxima and sums take them in. Returns the factor of earlier sums.
  static __device__ __forceinline__ OfRow weigh(Scores& scores, State& state, float scale) {
    OfRow most, sum, factor;
    warpgroup::reduce_rows<Max>(most, scores);
    warpgroup::map(most, most, state.max, [](float a, float b) { return fmaxf(a, b); });
    warpgroup::map(factor, state.max, most,
                   [&](float old, float now) { return ptx::exp2((old - now) * scale); });
    state.max = most;
    warpgroup::map(most, most, most, [&](float v, float) { return v * scale; });
    warpgroup::map_rows(scores, scores, most,
                        [&](float v, float m, uint32_t) { return ptx::exp2(fmaf(v, scale, -m)); });
    warpgroup::reduce_rows<Sum>(sum, scores);
    warpgroup::map(state.sum, state.sum, factor, [](float s, float f) { return s * f; });
    warpgroup::map(state.sum, state.sum, sum, [](float a, float b) { return a + b; });
    return factor;
  }
  static __device__ void compute(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                                 State& state, Scratch& scratch, const warpgroup::Place& place) {
    const auto& q = scratch.q[place.index];
    if (step == 0) {
      take_queries(stage, scratch, place);
      Scores scores = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k).wait();
      mask(g, task, scores, place);
      for (int r = 0; r < 2; ++r)
        state.max.part[0].quadrant[r] = -INFINITY, state.sum.part[0].quadrant[r] = 0;
      weigh(scores, state, g.scale);
      state.out = warpgroup::zeros<Out>();
      warpgroup::convert(state.weights, scores);
    } else if (step < task.blocks) {
      auto products = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k);
      auto out = mma_ab_async(std::move(state.out), std::move(state.weights), stage.v);
      Scores scores = std::move(products).template wait<1>();
      const OfRow factor = weigh(scores, state, g.scale);
      state.out = std::move(out).wait();
      rescale(state.out, factor);
      warpgroup::convert(state.weights, scores);
    } else {
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
