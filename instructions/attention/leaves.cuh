// Attention over the leaves of an instance: all warps work on the same tile of queries, each on one strip of
// the leaf; then each finishes some of the queries.
//
// Few queries (a token or two of each sequence) form one tile of 8. More, as of drafts or a piece of a
// prompt, form tiles of 16, one after the other; with heads of 64 channels, a warp keeps the strip's keys in
// registers and its values in shared memory for all of them. The sums are the same to the bit.
#pragma once

#include "instructions/attention/kv_tiles.cuh"

namespace serval::device::attention {

template <class Config, uint32_t kHeadDim, uint32_t kQueryFragments>
class Leaves {
 public:
  static constexpr uint32_t kQueries = kQueryFragments * kFragmentQueries;  // of a tile

  __device__ __forceinline__ Leaves(const Attention& op, const Group& group)
      : op_(op),
        group_(group),
        scratch_(*reinterpret_cast<Scratch*>(group.scratch)),
        warp_(__shfl_sync(kAllLanes, group.warp, 0)),
        queries_(group),
        steps_(op, group, queries_, warp_),
        source_{op, group, warp_},
        kv_tiles_(source_, scratch_.buffers) {}

  // Starts loading what earlier passes left in the cache before the inputs are ready.
  __device__ __forceinline__ void run() {
    Step step = steps_.first();
    if (step.none()) return;
    const uint32_t known = steps_.tokens_before(step);
    const uint32_t known_rows = source_.rows_before(step.item, known);
    if (kKeysInRegisters) keys_.load(source_, step, 0, known_rows);
    kv_tiles_.load_known(step, known);
    Tile tile = tile_of(step);
    Step next = steps_.after(step);
    group_.wait_inputs();
    if (kHoldsQueries) fetch(tile, 0);
    if (kKeysInRegisters) keys_.load(source_, step, known_rows, source_.rows(step.item));
    kv_tiles_.load_new(step, next, known);
    for (;;) {
      Scores scores[kQueryFragments];
      score(step, next, tile, scores);
      const Targets targets = tile.targets;
      const Step following = steps_.after(next);
      if (!next.none() && !next.same_queries(step)) {
        tile = tile_of(next);
        if (kHoldsQueries) fetch(tile, 0);
      }
      group_.sync();
      PerQuery largest[kQueryFragments];
      largest_of_leaf(largest);
      accumulate_values(step, next, following, scores, largest, targets);
      if (next.none()) return;
      kv_tiles_.next_step();
      parity_ ^= 1;
      step = next;
      next = following;
    }
  }

 private:
  static_assert(kStrips == kConsumerWarps, "a warp has the strip of its number");
  static constexpr uint32_t kWarpQueries = kQueries / kConsumerWarps;  // queries that a warp finishes
  static constexpr uint32_t kHeadTiles = kHeadDim / kKvTileChannels;
  // KV tiles of the queries' channels (and of the outputs') that a warp holds in registers at once.
  static constexpr uint32_t kHeldTiles = kQueryFragments == 1 ? kHeadTiles : 1;
  static constexpr bool kHoldsQueries = kHeldTiles == kHeadTiles;
  // Otherwise keys come through shared memory.
  static constexpr bool kKeysInRegisters = kHeadTiles == 1;
  // With keys in registers, shared memory has room for all warps' outputs beside one buffer of values: the
  // next leaf's values are in flight as soon as a warp has used its own. Otherwise a warp's outputs overwrite
  // its values, and the next tile is in flight while one is used.
  static constexpr bool kOwnOutputs = kKeysInRegisters;
  static constexpr uint32_t kKvBuffers = kOwnOutputs ? 1 : 2;
  using HeadKvTiles = KvTiles<kHeadDim, !kKeysInRegisters, kKvBuffers>;

  struct Scratch {
    typename HeadKvTiles::KvBuffers buffers;
    WarpOutput outputs[kOwnOutputs ? kConsumerWarps : 1][kOwnOutputs ? kQueryFragments : 1];
    float largest[2][kQueries][kConsumerWarps];  // of the current step and the previous one
    float sums[kQueries][kConsumerWarps];
  };
  static_assert(sizeof(Scratch) <= Config::kScratchBytes);

  // Values of the query whose number in the tile is the lane's.
  struct Targets {
    uint32_t tokens;  // tokens of the sequence that it sees; 0 if there is no such query
    float* partial;   // address of its result for the slot's first leaf
  };
  struct Tile {
    Targets targets;
    uint32_t vectors[kQueryFragments];  // of the lane's queries: Queries::vector()
    QueryTokens visible[kQueryFragments];
    Queries8 queries[kHeldTiles][kQueryFragments];
  };

  // Index in the tile of the query that the lane holds a part of.
  __device__ __forceinline__ uint32_t query_of_lane(uint32_t fragment) const {
    return fragment * kFragmentQueries + Scores::row_of(group_.lane, 0, 0);
  }

  // Each lane looks up one query; other lanes get it by a shuffle.
  __device__ __forceinline__ Tile tile_of(const Step& step) const {
    const Queries::Query own = queries_.at(step.item, step.first_query + group_.lane % kQueries);
    Tile tile;
    tile.targets.tokens = own.exists ? group_.rows[own.row].position + 1 : 0;
    tile.targets.partial = queries_.place(op_, group_, kHeadDim, own);
    const auto vector = static_cast<uint32_t>(queries_.vector(op_, group_, own));
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      const uint32_t query = query_of_lane(e);
      tile.visible[e].quadrant[0] = __shfl_sync(kAllLanes, tile.targets.tokens, query);
      tile.vectors[e] = __shfl_sync(kAllLanes, vector, query);
    }
    return tile;
  }
  __device__ __forceinline__ void fetch(Tile& tile, uint32_t first_tile) const {
    const auto* q = group_.tensor<&Attention::q, const tiles::Bf16>() + first_tile * kKvTileChannels;
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      const auto* vector = q + size_t{tile.vectors[e]} * kHeadDim;
#pragma unroll
      for (uint32_t h = 0; h < kHeldTiles; ++h)
        tiles::load_terms<tiles::Coherence::kBlock>(tile.queries[h][e], 0, vector + h * kKvTileChannels,
                                                    group_.lane);
    }
  }

  // Computes the scores of the warp's strip, and publishes their maxima to the other warps.
  __device__ __forceinline__ void score(const Step& step, const Step& next, Tile& tile,
                                        Scores (&scores)[kQueryFragments]) {
#pragma unroll
    for (Scores& s : scores) tiles::fill(s, 0);
    if constexpr (kKeysInRegisters) {
      if (step.item.sees_strip(warp_)) add_scores(scores, tile.queries[0], keys_.tile());
      if (!next.none() && !next.same_leaf(step)) keys_.load(source_, next, 0, source_.rows(next.item));
    } else {
      score_shared(step, next, tile, scores);
    }
    publish_largest(step, tile, scores);
  }
  __device__ __forceinline__ void score_shared(const Step& step, const Step& next, Tile& tile,
                                               Scores (&scores)[kQueryFragments]) const {
#pragma unroll kHeldTiles
    for (uint32_t h = 0; h < kHeadTiles; ++h) {
      if (!kHoldsQueries) fetch(tile, h);
      kv_tiles_.wait();
      if (step.item.sees_strip(warp_)) {
        Keys keys;
        tiles::load_terms(keys, kv_tiles_.buffer(h, warp_).tile, group_.lane);
        add_scores(scores, tile.queries[h % kHeldTiles], keys);
      }
      __syncwarp();
      kv_tiles_.load_ahead(step, next, next, h);
    }
  }
  __device__ __forceinline__ void publish_largest(const Step& step, const Tile& tile,
                                                  Scores (&scores)[kQueryFragments]) const {
    PerQuery largest[kQueryFragments];
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      scale_and_mask(scores[e], tile.visible[e], step.item.begin() + warp_ * kStripTokens, op_.scale * kLog2E,
                     group_.lane);
      tiles::reduce_rows<tiles::Max>(largest[e], scores[e]);
    }
    publish(scratch_.largest[parity_], largest);
  }

  // Publishes this warp's value for each query.
  __device__ __forceinline__ void publish(float (&to)[kQueries][kConsumerWarps],
                                          const PerQuery (&values)[kQueryFragments]) const {
    if (group_.lane % tiles::kPairLanes != 0) return;
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) to[query_of_lane(e)][warp_] = values[e].quadrant[0];
  }
  __device__ __forceinline__ void largest_of_leaf(PerQuery (&largest)[kQueryFragments]) const {
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e)
      largest[e].quadrant[0] = total_in_pairs<tiles::Max>(scratch_.largest[parity_][query_of_lane(e)]);
  }

  // Turns scores into weights, and publishes their sums to the other warps.
  __device__ __forceinline__ void softmax_all(Scores (&scores)[kQueryFragments],
                                              const PerQuery (&largest)[kQueryFragments],
                                              Weights (&weights)[kQueryFragments]) const {
    PerQuery sums[kQueryFragments];
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      softmax(scores[e], largest[e]);
      tiles::reduce_rows<tiles::Sum>(sums[e], scores[e]);
      tiles::convert(weights[e], scores[e]);
    }
    publish(scratch_.sums, sums);
  }

  __device__ __forceinline__ void accumulate_values(const Step& step, const Step& next, const Step& following,
                                                    Scores (&scores)[kQueryFragments],
                                                    const PerQuery (&largest)[kQueryFragments],
                                                    const Targets& targets) const {
    Weights weights[kQueryFragments];
    softmax_all(scores, largest, weights);
#pragma unroll 1
    for (uint32_t first = 0; first < kHeadTiles; first += kHeldTiles) {
      const uint32_t last = HeadKvTiles::kFirstValues + first + kHeldTiles - 1;  // KV tile
      Output outputs[kHeldTiles][kQueryFragments];
#pragma unroll
      for (uint32_t h = 0; h < kHeldTiles; ++h) {
        const uint32_t kv_tile = HeadKvTiles::kFirstValues + first + h;
        kv_tiles_.wait();
        multiply_strip(step, weights, kv_tile, outputs[h]);
        if (kv_tile == last) continue;
        __syncwarp();
        kv_tiles_.load_ahead(step, next, following, kv_tile);
      }
      if (kOwnOutputs) {
        __syncwarp();
        if (!next.same_leaf(step)) kv_tiles_.load_ahead(step, next, following, last);
      }
      share_outputs(last, outputs);
      group_.sync();
      store(step, first, last, targets);
      if (kOwnOutputs || (next.none() && last == HeadKvTiles::kCount - 1)) continue;
      group_.sync();  // the outputs have been read
      kv_tiles_.load_ahead(step, next, following, last);
    }
  }
  __device__ __forceinline__ void multiply_strip(const Step& step, const Weights (&weights)[kQueryFragments],
                                                 uint32_t kv_tile, Output (&total)[kQueryFragments]) const {
#pragma unroll
    for (Output& t : total) tiles::fill(t, 0);
    if (step.item.sees_strip(warp_))
      add_output(total, weights, kv_tiles_.buffer(kv_tile, warp_).tile, group_.lane);
  }

  // Shared memory for a warp's outputs, which the other warps read: if there is none of its own, that of the
  // values which the warp loaded. The outputs are read before the next step's barrier.
  __device__ __forceinline__ WarpOutput* outputs_of(uint32_t kv_tile, uint32_t warp) const {
    return kOwnOutputs ? scratch_.outputs[warp] : kv_tiles_.buffer(kv_tile, warp).outputs;
  }
  __device__ __forceinline__ void share_outputs(uint32_t kv_tile,
                                                const Output (&outputs)[kHeldTiles][kQueryFragments]) const {
    WarpOutput* const to = outputs_of(kv_tile, warp_);
    __syncwarp();
#pragma unroll
    for (uint32_t h = 0; h < kHeldTiles; ++h) {
#pragma unroll
      for (uint32_t e = 0; e < kQueryFragments; ++e)
        tiles::store(to[h * kQueryFragments + e], outputs[h][e], group_.lane);
    }
  }

  // Adds up the strips for the queries that this warp finishes, for some KV tiles of their channels.
  __device__ __forceinline__ void store(const Step& step, uint32_t first_tile, uint32_t kv_tile,
                                        const Targets& targets) const {
    constexpr uint32_t kAtOnce = kWarpQueries < 4 ? kWarpQueries : 4;
    constexpr uint32_t kQueryLanes = kWarpThreads / kAtOnce;
    const uint64_t leaf = step.item.done_leaves * queries_.layout(op_, kHeadDim).leaf_cols();
#pragma unroll 1
    for (uint32_t i = 0; i < kWarpQueries; i += kAtOnce) {
      const uint32_t query = warp_ * kWarpQueries + i + group_.lane / kQueryLanes;  // in the tile
      const bool sees = __shfl_sync(kAllLanes, targets.tokens, query) > step.item.begin();
      float* const to = shuffle(targets.partial, query) + leaf + first_tile * kKvTileChannels;
#pragma unroll
      for (uint32_t h = 0; h < kHeldTiles; ++h) {
#pragma unroll
        for (uint32_t c = 0; c < kKvTileChannels; c += 2 * kQueryLanes) {
          const uint32_t channel = c + 2 * (group_.lane % kQueryLanes);
          const float2 total =
              total_of(step.item.strips(), kv_tile, h * kQueryFragments + query / kFragmentQueries,
                       query % kFragmentQueries, channel);
          if (sees) *reinterpret_cast<float2*>(to + h * kKvTileChannels + channel) = total;
        }
      }
    }
    if (first_tile == 0 && warp_ == 0) store_scalars(step, targets, leaf);
  }
  // Sum of two channels over the strips.
  __device__ __forceinline__ float2 total_of(uint32_t strips, uint32_t kv_tile, uint32_t output, uint32_t row,
                                             uint32_t channel) const {
    float2 halves[2] = {};
#pragma unroll
    for (uint32_t w = 0; w < kConsumerWarps; ++w) {
      if (w >= strips) break;
      const WarpOutput& outputs = outputs_of(kv_tile, w)[output];
      const float2 of_warp = *reinterpret_cast<const float2*>(outputs.at(row, channel));
      float2& half = halves[2 * w / kConsumerWarps];
      half = {half.x + of_warp.x, half.y + of_warp.y};
    }
    return {halves[0].x + halves[1].x, halves[0].y + halves[1].y};
  }
  // Stores the largest score and the sum of weights after a head's channels, for all queries of the tile, one
  // a lane.
  __device__ __forceinline__ void store_scalars(const Step& step, const Targets& targets,
                                                uint64_t leaf) const {
    if (group_.lane >= kQueries || targets.tokens <= step.item.begin()) return;
    *reinterpret_cast<float2*>(targets.partial + leaf + kHeadDim) = {
        total_in_pairs<tiles::Max>(scratch_.largest[parity_][group_.lane]) * kLn2,
        total_in_pairs<tiles::Sum>(scratch_.sums[group_.lane])};
  }
  static __device__ __forceinline__ float* shuffle(float* pointer, uint32_t lane) {
    return reinterpret_cast<float*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(pointer), static_cast<int>(lane)));
  }

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  uint32_t warp_;  // group.warp, known to the compiler to be uniform in the warp
  Queries queries_;
  Steps<kQueries> steps_;
  Source source_;
  HeadKvTiles kv_tiles_;
  RegisterKeys keys_;    // used if kKeysInRegisters
  uint32_t parity_ = 0;  // of the current leaf
};

template <class Config, uint32_t kHeadDim>
using FewQueries = Leaves<Config, kHeadDim, 1>;
template <class Config, uint32_t kHeadDim>
using ManyQueries = Leaves<Config, kHeadDim, 2>;

}  // namespace serval::device::attention
