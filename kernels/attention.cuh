// The kernel of attention(): tiles of 64 queries for each of two or three warpgroups, and blocks of 128 keys.
// Step i multiplies the keys of block i while the values of the block before are multiplied. Those run under
// the search for the rows' maxima; the exponentials run under the products of the other warpgroups. Heads of
// 128: two blocks of a cluster have neighbouring tiles of one head, and each loads half of the keys and
// values for both.
//
// Weights are exp(score - reference), where a row's reference is a maximum of its earlier scores. It moves,
// and earlier sums are scaled, only when a scaled score exceeds it by more than ln 2^8 (lazy rescaling). In
// exact arithmetic results do not depend on the reference. Weights are at most 2^8, so fp32 holds the sum of
// any row; each is rounded to bf16 with a relative error of at most 2^-9, whatever its size, so an output has
// at most 2^-9 of the weighted mean of |v| from that. (If the reference were the maximum, the largest weight
// would be 1, which needs no rounding; the bound would be the same.)
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_tiles.cuh"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

template <uint32_t kHeadDim, bool kCausal>
struct Attention {
  static constexpr uint32_t kConsumers = kHeadDim == 128 ? 2 : 3, kBlocks = kHeadDim == 128 ? 2 : 1;
  static constexpr uint32_t kStages = kHeadDim == 128 ? 3 : 4, kScratches = kHeadDim == 128 ? 1 : 2;
  static constexpr uint32_t kKeys = 128, kRowsOfConsumer = 64, kRows = kRowsOfConsumer * kConsumers;
  static constexpr float kMostExponent = 8;  // of a weight, base 2
  // References begin below all scores but those of hidden keys, whose weights are then 0 from the start.
  static constexpr float kLowest = -1e30F;

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
    float slack;  // kMostExponent as a difference of scores
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
    OfRow reference, sum;  // sum: of the lane's elements
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) {
    return blocks_of(g.shape.length, kRows * kBlocks) * g.shape.batch * g.shape.heads;
  }
  // Blocks that rows before `end` see.
  static __device__ uint32_t blocks_before(const Globals& g, uint32_t end) {
    return blocks_of(kCausal ? min(g.shape.length, end) : g.shape.length, kKeys);
  }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t block) {
    const uint32_t tiles = blocks_of(g.shape.length, kRows * kBlocks);
    const HeadTile place =
        head_tile<kCausal>(index, g.shape.batch * g.shape.heads, tiles, gridDim.x / kBlocks);
    const uint32_t row = (tiles - 1 - place.tile) * kRows * kBlocks;  // of the cluster
    const uint32_t kv_head = place.head / (g.shape.heads / g.shape.kv_heads);
    return {row + block * kRows, place.head * g.shape.length, kv_head * g.shape.length,
            blocks_before(g, row + kRows * kBlocks)};
  }
  static __device__ uint32_t steps(const Globals&, const Task& task) { return task.blocks + 1; }
  static __device__ uint32_t bytes(const Globals&, const Task& task, uint32_t step) {
    return step == 0 || step == task.blocks ? sizeof(Tile) : 2 * sizeof(Tile);
  }
  static __device__ __forceinline__ void load_keys(Tile& tile, const TensorMap<typename Tile::Panel>& of,
                                                   uint32_t key, const pipeline::Landing& landing) {
    if constexpr (kBlocks == 1) {
      for (int p = 0; p < Tile::kPanels; ++p) landing.load(tile.panel[p], of, key, p * Tile::Panel::kCols);
    } else {
      static_assert(Tile::kPanels == kBlocks, "each block of a cluster loads a panel");
      landing.load_to_both(tile.panel[landing.block], of, key, landing.block * Tile::Panel::kCols);
    }
  }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t key = task.first_key + step * kKeys;
    if (step < task.blocks) load_keys(stage.k, g.k, key, landing);
    if (step > 0) load_keys(stage.v, g.v, key - kKeys, landing);
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
  // Moves the references of the warp's rows to the maxima with `scores` if one is too low. Returns whether it
  // did; `factor` is then that of earlier sums and products.
  static __device__ __forceinline__ bool move_references(const Globals& g, const Scores& scores, State& state,
                                                         OfRow& factor) {
    OfRow most;
    for (int r = 0; r < 2; ++r) most.part[0].quadrant[r] = -INFINITY;
    warpgroup::accumulate_rows<Max>(most, scores);
    const auto& [first, second] = state.reference.part[0].quadrant;
    const bool grows =
        most.part[0].quadrant[0] > first + g.slack || most.part[0].quadrant[1] > second + g.slack;
    if (!__any_sync(kAllLanes, grows)) return false;
    warpgroup::reduce_lanes<Max>(most);
    warpgroup::map(most, most, state.reference, [](float a, float b) { return fmaxf(a, b); });
    warpgroup::map(factor, state.reference, most,
                   [&](float old, float now) { return ptx::exp2((old - now) * g.scale); });
    state.reference = most;
    warpgroup::map(state.sum, state.sum, factor, [](float s, float f) { return s * f; });
    return true;
  }
  // scores = weights, which the lane's sums take in
  static __device__ __forceinline__ void weigh(const Globals& g, Scores& scores, State& state) {
    OfRow reference;
    warpgroup::map(reference, state.reference, state.reference, [&](float v, float) { return v * g.scale; });
    warpgroup::map_rows(scores, scores, reference, [&](float v, float of_row, uint32_t) {
      return ptx::exp2(fmaf(v, g.scale, -of_row));
    });
    warpgroup::accumulate_rows<Sum>(state.sum, scores);
    warpgroup::convert(state.weights, scores);
  }
  static __device__ void compute(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                                 State& state, Scratch& scratch, const warpgroup::Place& place) {
    const auto& q = scratch.q[place.index];
    const uint32_t row = task.row + place.index * kRowsOfConsumer, key = step * kKeys;
    if (row >= g.shape.length) return;  // this warpgroup has no rows
    const uint32_t blocks = min(task.blocks, blocks_before(g, row + kRowsOfConsumer));  // of the warpgroup
    OfRow factor;
    if (step == 0) {
      Scores scores = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k).wait();
      hide(g, row, key, scores, place);
      for (int r = 0; r < 2; ++r)
        state.reference.part[0].quadrant[r] = kLowest, state.sum.part[0].quadrant[r] = 0;
      move_references(g, scores, state, factor);
      weigh(g, scores, state);
      state.out = warpgroup::zeros<Out>();
    } else if (step < blocks) {
      auto products = mma_abt_async(warpgroup::zeros<Scores>(), q, stage.k);
      auto out = mma_ab_async(std::move(state.out), std::move(state.weights), stage.v);
      Scores scores = std::move(products).template wait<1>();
      hide(g, row, key, scores, place);
      const bool moved = move_references(g, scores, state, factor);  // its branches keep the wait after it
      state.out = std::move(out).wait();
      if (moved) rescale(state.out, factor);
      weigh(g, scores, state);
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
      const float reference = state.reference.part[0].quadrant[r], sum = state.sum.part[0].quadrant[r];
      if (own < rows) g.log_sums[first + own] = reference * g.scale * kLn2 + logf(sum);
    }
  }
};

}  // namespace serval::kernels
