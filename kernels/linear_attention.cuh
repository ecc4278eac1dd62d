// The kernel of kernels/linear_attention.h. Each of two warpgroups goes through the chunks of 64 tokens of
// one head. In a chunk it computes the weights themselves, and the state gives it what the chunks before add:
//
//   out = (1 + s + s² / 2, causal) v + φ(q) state,   then state += φ(k)ᵀ v
//
// x ⊗ x is symmetric, so 160 features suffice. Group d of 16 has x_c x_{c + d}, indices modulo 16:
//
//   group 0             squares, weighted by 1/2
//   groups 1 to 7       each pair at distance d once, weighted by 1
//   group 8             c < 8: pairs at distance 8; c ≥ 8: 1, of which only c = 8 is weighted
//   group 9             x itself
//
// With weights on the left, x = q / 4, so all weights are exact.
#pragma once

#include "kernels/linear_attention.h"
#include "vm/tiles/sm90/pipeline.cuh"

namespace serval::kernels {

using namespace tiles;

struct Based {
  static constexpr uint32_t kConsumers = 2, kStages = 4, kBlocks = 1;
  static constexpr uint32_t kChunk = 64, kDim = 16, kHeadsOfPanel = 4;
  static constexpr uint32_t kFeatures = 160, kOnes = 0x3F803F80, kHalves = 0x3F003F00, kQuarters = 0x3E803E80;

  using Panel = SharedTile<Bf16, kChunk, 64>;  // values of a head, or q or k of four heads
  using Scores = warpgroup::Accumulator<kChunk, 64>;
  using Weights = warpgroup::RegisterTile<Bf16, kChunk, 64>;
  using StateSums = warpgroup::Accumulator<192, 64>;  // a row for each feature, and 32 unused ones
  using StateTile = SharedTile<Bf16, 192, 64>;
  using KeyFeatures = warpgroup::RegisterTile<Bf16, 192, kChunk>;
  using Keys = SharedTile<Bf16, kDim, kChunk>;  // transposed

  struct Globals {
    TensorMap<Panel> q, k, v, out;
    BasedShape shape;
  };
  struct Task {
    uint32_t row, head;  // first token, as a row of the matrices; first of two heads
  };
  struct Stage {
    Panel q, k, v[kConsumers];  // the outputs replace v
  };
  struct Scratch {
    struct {
      StateTile state;
      Keys keys;
    } of[kConsumers];
  };
  struct State {
    StateSums sums;
  };

  static __host__ __device__ uint32_t tasks(const Globals& g) { return g.shape.batch * g.shape.heads / 2; }
  static __device__ Task task(const Globals& g, uint32_t index, uint32_t) {
    const uint32_t pairs = g.shape.heads / 2;
    return {index / pairs * g.shape.tokens, index % pairs * 2};
  }
  static __device__ uint32_t steps(const Globals& g, const Task&) { return g.shape.tokens / kChunk; }
  static __device__ void load(const Globals& g, const Task& task, uint32_t step, Stage& stage,
                              const pipeline::Landing& landing) {
    const uint32_t row = task.row + step * kChunk, panel = task.head / kHeadsOfPanel * 64;
    landing.load(stage.q, g.q, row, panel);
    landing.load(stage.k, g.k, row, panel);
    for (uint32_t i = 0; i < kConsumers; ++i) landing.load(stage.v[i], g.v, row, (task.head + i) * 64);
  }
  static __device__ void store(const Globals& g, const Task& task, uint32_t step, Stage& stage) {
    for (uint32_t i = 0; i < kConsumers; ++i)
      store_async(g.out, task.row + step * kChunk, (task.head + i) * 64, stage.v[i]);
  }
  static __device__ State begin(const Globals&, const warpgroup::Place&) {
    return {warpgroup::zeros<StateSums>()};
  }

  // Each warp transposes its 16 tokens; `col`: the head's first column in the panel.
  static __device__ __forceinline__ void transpose_keys(Keys& keys, const Panel& k, uint32_t col,
                                                        const warpgroup::Place& place) {
    const uint32_t m = place.lane / kQuadrant, lane = place.lane % kQuadrant, token = place.warp * 16;
    uint32_t
        four[4];  // (keys 0 to 7, tokens 0 to 7), (8 to 15, 0 to 7), (0 to 7, 8 to 15), (8 to 15, 8 to 15)
    ptx::load_matrices<true>(four, ptx::shared_address(k.at(token + m / 2 * 8 + lane, col + m % 2 * 8)));
    ptx::store_matrices<false>(ptx::shared_address(keys.at(m % 2 * 8 + lane, token + m / 2 * 8)), four);
  }
  // φ(k)ᵀ without weights: warp w has groups w, 4 + w and 8 + w.
  static __device__ __forceinline__ KeyFeatures key_features(const Keys& keys,
                                                             const warpgroup::Place& place) {
    KeyFeatures out;
    const uint32_t m = place.lane / kQuadrant, row = m % 2 * 8 + place.lane % kQuadrant, col = m / 2 * 8;
    const auto load = [&](uint32_t(&four)[4], uint32_t distance, uint32_t step) {
      const uint32_t first = ptx::shared_address(keys.at((row + distance) % kDim, col));
      ptx::load_matrices<false>(four, Keys::moved<sizeof(Bf16)>(first, 0, step * 16));
    };
#pragma unroll
    for (uint32_t step = 0; step < KeyFeatures::kCols / 16; ++step) {
      uint32_t x[4], shifted[3][4];
      load(x, 0, step);
#pragma unroll
      for (uint32_t part = 0; part < 3; ++part)
        load(shifted[part], part < 2 ? 4 * part + place.warp : 8, step);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const auto at = [&](uint32_t part) -> uint32_t& {
          return out.part[part].quadrant[i % 2][2 * step + i / 2];
        };
        at(0) = ptx::multiply_bf16(x[i], shifted[0][i]);
        at(1) = ptx::multiply_bf16(x[i], shifted[1][i]);
        const uint32_t eight = i % 2 == 0 ? ptx::multiply_bf16(x[i], shifted[2][i]) : kOnes;
        at(2) = place.warp == 0 ? eight : place.warp == 1 ? x[i] : 0;
      }
    }
    return out;
  }

  // Elements of two rows of q / 4: pairs of neighbours that begin at column 2 (lane mod 4).
  struct Queries {
    uint32_t pair[2][kDim / 2];

    // Elements c + distance and the next, where c is 2 (lane mod 4), or 8 more.
    __device__ __forceinline__ uint32_t at(uint32_t row, uint32_t distance) const {
      const uint32_t first = pair[row][distance / 2 % 8], next = pair[row][(distance / 2 + 1) % 8];
      return distance % 2 == 0 ? first : __byte_perm(first, next, 0x5432);
    }
  };
  static __device__ __forceinline__ Queries load_queries(const Panel& q, uint32_t col,
                                                         const warpgroup::Place& place) {
    Queries out;
    const uint32_t row = place.warp * 16 + place.lane / kPairLanes;
#pragma unroll
    for (uint32_t i = 0; i < kDim / 2; ++i) {
      const uint32_t pair = (place.lane % kPairLanes + i) % (kDim / 2);
#pragma unroll
      for (uint32_t r = 0; r < 2; ++r)
        out.pair[r][i] = ptx::multiply_bf16(
            *reinterpret_cast<const uint32_t*>(q.at(row + r * kQuadrant, col + 2 * pair)), kQuarters);
    }
    return out;
  }
  // φ(q) with the weights.
  static __device__ __forceinline__ auto query_features(const Queries& q, const warpgroup::Place& place) {
    warpgroup::RegisterTile<Bf16, kChunk, kFeatures> out;
#pragma unroll
    for (uint32_t r = 0; r < 2; ++r) {
      auto& to = out.part[0].quadrant[r];
      const uint32_t low = q.at(r, 0), high = q.at(r, 8);
#pragma unroll
      for (uint32_t d = 0; d < 8; ++d) {
        to[2 * d] = ptx::multiply_bf16(d == 0 ? ptx::multiply_bf16(low, kHalves) : low, q.at(r, d));
        to[2 * d + 1] = ptx::multiply_bf16(d == 0 ? ptx::multiply_bf16(high, kHalves) : high, q.at(r, 8 + d));
      }
      to[16] = ptx::multiply_bf16(low, high);
      to[17] = place.lane % kPairLanes == 0 ? kOnes & 0xFFFF : 0;
      to[18] = low;
      to[19] = high;
    }
    return out;
  }
  // 1 + s + s² / 2 where the key's token is not after the query's.
  static __device__ __forceinline__ Weights weights_of(Scores& scores, const warpgroup::Place& place) {
    const auto weight = [](float s, uint32_t query, uint32_t key) {
      return key <= query ? fmaf(s, fmaf(s, 0.5F, 1), 1) : 0;
    };
    warpgroup::map_rows(scores, scores, warpgroup::row_numbers<Scores>(place), weight, place.lane);
    Weights out;
    warpgroup::convert(out, scores);
    return out;
  }

  static __device__ __forceinline__ void publish(StateTile& to, const State& state,
                                                 const warpgroup::Place& place) {
    warpgroup::RegisterTile<Bf16, 192, 64> rounded;
    warpgroup::convert(rounded, state.sums);
    warpgroup::store(to, rounded, place);
  }
  static __device__ __forceinline__ void compute(const Globals&, const Task& task, uint32_t step,
                                                 Stage& stage, State& state, Scratch& scratch,
                                                 const warpgroup::Place& place) {
    const warpgroup::Place at = place.opaque();
    auto& mine = scratch.of[place.index];
    Panel& v = stage.v[place.index];
    const uint32_t col = (task.head % kHeadsOfPanel + place.index) * kDim;
    transpose_keys(mine.keys, stage.k, col, at);
    if (step == 0) {
      warpgroup::fill(state.sums, 0);
      publish(mine.state, state, at);
      ptx::fence_proxy_async_shared();
    }
    const Queries q = load_queries(stage.q, col, at);
    warpgroup::RegisterTile<Bf16, kChunk, kDim> left;
    for (uint32_t i = 0; i < 4; ++i) left.part[0].quadrant[i % 2][i / 2] = q.pair[i % 2][i / 2 * 4];
    auto scoring = mma_abt_async(warpgroup::fresh_zeros<Scores>(), std::move(left),
                                 warpgroup::columns_of<kDim>(stage.k, col));
    place.sync();  // the keys, and the state that the chunk before has published

    auto update = mma_ab_async(std::move(state.sums), key_features(mine.keys, at), v);
    Scores scores = std::move(scoring).template wait<1>();
    Weights weights = weights_of(scores, at);
    auto features = query_features(q, at);
    state.sums = std::move(update).wait();
    auto products = mma_ab_async(warpgroup::zeros<Scores>(), std::move(weights), v);
    Scores out =
        mma_ab_async(std::move(products), std::move(features), warpgroup::rows_of<kFeatures>(mine.state, 0))
            .wait();
    place.sync();  // all warps' products have read the values, the keys and the state
    Weights rounded;
    warpgroup::convert(rounded, out);
    warpgroup::store(v, rounded, at);
    publish(mine.state, state, at);  // for the next chunk; the pipeline's fence and the barrier above follow
  }
};

}  // namespace serval::kernels
