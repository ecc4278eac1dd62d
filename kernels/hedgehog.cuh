// The kernel of hedgehog_attention() of kernels/linear_attention.h. Two warpgroups go through the chunks of
// 64 tokens of one head; each has 64 of the 128 values. Both compute the features: that takes less time than
// to meet.
//
//   out = ((φ(q) φ(k)ᵀ, causal) v + φ(q) state) / sums,   then state += φ(k)ᵀ v
#pragma once

#include "kernels/linear_attention.h"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

struct Hedgehog {
  static constexpr uint32_t kConsumers = 2, kStages = 2, kBlocks = 1;
  static constexpr uint32_t kChunk = 64, kDim = 128, kThreads = kConsumers * warpgroup::kThreads;

  using Panel = SharedTile<Bf16, kChunk, 64>;
  using Vectors = warpgroup::SharedTile<Bf16, kChunk, kDim>;  // q, k, or features
  using Map = SharedTile<Bf16, kDim, 64>;
  using Outputs = warpgroup::Accumulator<kChunk, 64>;  // also scores, and vectors times a map
  using Half = typename Outputs::Part;
  using Features = warpgroup::RegisterTile<Bf16, kChunk, kDim>;
  using StateSums = warpgroup::Accumulator<kDim, 64>;
  using Keys = warpgroup::RegisterTile<Bf16, kDim, kChunk>;  // features of keys, transposed

  struct Globals {
    TensorMap<Panel> q, k, v, out;
    const uint4 *q_map, *k_map;
    HedgehogShape shape;
  };
  struct Task {
    uint32_t row, head;  // first token, as a row of the matrices
  };
  struct Stage {
    Vectors q, k;
    Panel v[kConsumers];  // the outputs replace it
  };
  struct Scratch {
    Map q_map, k_map;
    struct {
      SharedTile<Bf16, kDim, 64> state;
      Vectors keys;                        // features
      float kept[warpgroup::kThreads][2];  // of each thread
      float sums[2][64];                   // of features before this chunk
    } of[kConsumers];
  };
  struct State {
    StateSums sums;
    warpgroup::RowVector<Keys> features;  // of the keys so far, summed up
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) { return g.shape.batch * g.shape.heads; }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    return {index / g.shape.heads * g.shape.tokens, index % g.shape.heads};
  }
  static __device__ uint32_t steps(const Globals& g, const Task&) { return g.shape.tokens / kChunk; }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t row = task.row + step * kChunk;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t col = task.head * kDim + i * 64;
      landing.load(stage.q.panel[i], g.q, row, col);
      landing.load(stage.k.panel[i], g.k, row, col);
      landing.load(stage.v[i], g.v, row, col);
    }
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t step, Stage& stage) {
    for (uint32_t i = 0; i < kConsumers; ++i)
      store_async(g.out, task.row + step * kChunk, task.head * kDim + i * 64, stage.v[i]);
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) {
    return {warpgroup::zeros<StateSums>(), {}};
  }

  static __device__ void load_map(Map& to, const uint4* from, uint32_t thread) {
    for (uint32_t i = thread; i < kDim * Map::kRowSegments; i += kThreads) {
      const uint32_t row = i / Map::kRowSegments, col = i % Map::kRowSegments * Map::kSegmentElements;
      *reinterpret_cast<uint4*>(to.at(row, col)) = ptx::load_constant(from + i);
    }
  }
  // The head's maps, for both warpgroups, and a state of zeros.
  static __device__ __forceinline__ void begin_task(const Globals& g, const Task& task, State& state,
                                                    Scratch& scratch, const warpgroup::Place& place) {
    const auto sync = [] { ptx::named_barrier_sync(warpgroup::kFreeBarrier, kThreads); };
    sync();  // no product reads the maps of the task before
    load_map(scratch.q_map, g.q_map + size_t{task.head} * kDim * Map::kRowSegments, place.thread());
    load_map(scratch.k_map, g.k_map + size_t{task.head} * kDim * Map::kRowSegments, place.thread());
    ptx::fence_proxy_async_shared();
    sync();
    warpgroup::fill(state.sums, 0);
    for (auto& part : state.features.part) fill(part, 0);
  }

  static __device__ __forceinline__ void softmax(Half& x) {
    constexpr float kLog2E = 1.4426950408889634F;
    tiles::RowVector<Half> rows;
    reduce_rows<Max>(rows, x);
    map_rows(x, x, rows, [](float v, float most, uint32_t) { return ptx::exp2((v - most) * kLog2E); });
    reduce_rows<Sum>(rows, x);
    map_rows(x, x, rows, [](float v, float sum, uint32_t) { return __fdividef(v, sum); });
  }
  // (softmax(x), softmax(-x)) of each row. Calls see(half, a half of them) before it is rounded.
  template <class See>
  static __device__ __forceinline__ Features features_of(const Outputs& x, See&& see) {
    Features out;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Half y = x.part[0];
      map(y, y, [half](float v) { return half == 0 ? v : -v; });
      softmax(y);
      see(half, y);
      tiles::RegisterTile<Bf16, warpgroup::kRowsOfWarp, 64> rounded;
      tiles::convert(rounded, y);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int c = 0; c < Half::kQuadrantCols; ++c)
          out.part[0].quadrant[r][half * Half::kQuadrantCols + c] = rounded.quadrant[r][c];
      }
    }
    return out;
  }
  // Adds the sum of the features before this chunk, multiplied by the features of each row.
  static __device__ __forceinline__ void weigh(tiles::RowVector<Half>& to, const Half& features,
                                               const float (&sums)[64], const warpgroup::Place& place) {
    tiles::ColumnVector<Half> column;
    tiles::load(column, sums, place.lane);
    Half product = features;
    map_columns(
        product, product, column, [](float v, float sum, uint32_t) { return v * sum; }, place.lane);
    accumulate_rows<Sum>(to, product);
  }
  // Adds the sum of each row's tokens.
  static __device__ __forceinline__ void add_features(State& state, const Keys& keys) {
#pragma unroll
    for (int i = 0; i < Keys::kParts; ++i) {
      tiles::RegisterTile<float, warpgroup::kRowsOfWarp, kChunk> wide;
      tiles::convert(wide, keys.part[i]);
      tiles::RowVector<decltype(wide)> sums;
      reduce_rows<Sum>(sums, wide);
      map(state.features.part[i], state.features.part[i], sums, [](float a, float b) { return a + b; });
    }
  }
  // What the chunks before this one add, for its products.
  static __device__ __forceinline__ void publish(auto& mine, const State& state,
                                                 const warpgroup::Place& place) {
    warpgroup::RegisterTile<Bf16, kDim, 64> rounded;
    warpgroup::convert(rounded, state.sums);
    warpgroup::store(mine.state, rounded, place);
    if (place.lane % kPairLanes != 0) return;
    const auto rows = warpgroup::row_numbers<StateSums>(place);
#pragma unroll
    for (int i = 0; i < StateSums::kParts; ++i) {
#pragma unroll
      for (int q = 0; q < 2; ++q)
        mine.sums[i][rows.part[i].quadrant[q] % 64] = state.features.part[i].quadrant[q];
    }
  }

  static __device__ __forceinline__ void compute(const Globals& g, const Task& task, uint32_t step,
                                                 Stage& stage, State& state, Scratch& scratch,
                                                 const warpgroup::Place& place) {
    auto& mine = scratch.of[place.index];
    Panel& v = stage.v[place.index];
    if (step == 0) begin_task(g, task, state, scratch, place.opaque());
    publish(mine, state, place.opaque());
    auto mapping_keys = mma_ab_async(warpgroup::zeros<Outputs>(), stage.k, scratch.k_map);
    auto mapping_queries = mma_ab_async(warpgroup::fresh_zeros<Outputs>(), stage.q, scratch.q_map);
    warpgroup::store(mine.keys,
                     features_of(std::move(mapping_keys).template wait<1>(), [](int, const Half&) {}),
                     place.opaque());
    ptx::fence_proxy_async_shared();
    place.sync();

    tiles::RowVector<Half> sums, within;
    fill(sums, 0);
    Features left = features_of(std::move(mapping_queries).wait(), [&](int half, const Half& features) {
      weigh(sums, features, mine.sums[half], place.opaque());
    });
    reduce_lanes<Sum>(sums);
    // Kept in memory, for the compiler would put off these sums, and keep the features in fp32, until after
    // the products.
    volatile float* const kept = mine.kept[place.warp * kWarpThreads + place.lane];
    kept[0] = sums.quadrant[0], kept[1] = sums.quadrant[1];
    Features same = left;
    auto scoring = mma_abt_async(warpgroup::zeros<Outputs>(), std::move(left), mine.keys);
    auto before = mma_ab_async(warpgroup::fresh_zeros<Outputs>(), std::move(same), mine.state);
    Outputs out = std::move(before).wait(), scores = std::move(scoring).wait();
    warpgroup::map_rows(
        scores, scores, warpgroup::row_numbers<Outputs>(place.opaque()),
        [](float s, uint32_t query, uint32_t key) { return key <= query ? s : 0; }, place.lane);
    reduce_rows<Sum>(within, scores.part[0]);
    sums.quadrant[0] = kept[0], sums.quadrant[1] = kept[1];
    map(sums, sums, within, [](float a, float b) { return a + b; });
    warpgroup::RegisterTile<Bf16, kChunk, kChunk> weights;
    warpgroup::convert(weights, scores);
    auto adding = mma_ab_async(std::move(out), std::move(weights), v);
    Keys keys;
    warpgroup::load_transposed(keys, mine.keys, place.opaque());
    add_features(state, keys);
    auto update = mma_ab_async(std::move(state.sums), std::move(keys), v);

    out = std::move(adding).template wait<1>();
    map_rows(out.part[0], out.part[0], sums, [](float w, float sum, uint32_t) { return __fdividef(w, sum); });
    warpgroup::RegisterTile<Bf16, kChunk, 64> rounded;
    warpgroup::convert(rounded, out);
    state.sums = std::move(update).wait();
    place.sync();  // all warps' products have read v, the features and the state
    warpgroup::store(v, rounded, place.opaque());
  }
};

}  // namespace serval::kernels
