// Attention over the leaves of an instance: several warps work on the same tile of queries, each on some
// strips of the leaf; then each finishes some of the queries.
//
// Few queries (a token or two of each sequence) form one tile of 8, and each warp has one strip; with heads
// of 64 channels, a warp keeps the keys of its strip in registers. Many queries, as in a chunk of a prompt,
// form tiles of 16, and each warp has half a leaf: each key and value that a warp reads serves 16 queries.
// The sums are the same to the bit.
#pragma once

#include "instructions/attention/kv_tiles.cuh"

namespace serval::device::attention {

template <class Config, uint32_t kHeadDim, uint32_t kTileWarpsOf>
class Leaves {
 public:
  static constexpr uint32_t kTileWarps = kTileWarpsOf;
  static constexpr uint32_t kTiles = kConsumerWarps / kTileWarps;  // at a time
  static constexpr bool kFewQueries = kTiles == 1;
  static constexpr uint32_t kQueryFragments = kFewQueries ? 1 : 2;
  static constexpr uint32_t kTileQueries = kQueryFragments * kFragmentQueries;
  static constexpr uint32_t kQueries = kTiles * kTileQueries;  // at a time

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
    if (kFewQueries) fetch(tile, 0);
    if (kKeysInRegisters) keys_.load(source_, step, known_rows, source_.rows(step.item));
    kv_tiles_.load_new(step, next, known);
    for (;;) {
      Scores scores[kWarpStrips][kQueryFragments];
      score(step, next, tile, scores);
      const Targets targets = tile.targets;
      const Step following = steps_.after(next);
      if (kFewQueries && !next.none() && !next.same_queries(step)) {
        tile = tile_of(next);
        fetch(tile, 0);
      }
      group_.sync();
      if (!kFewQueries) kv_tiles_.load_ahead(step, next, following, kHeadTiles - 1);
      PerQuery largest[kQueryFragments];
      largest_of_leaf(largest);
      accumulate_values(step, next, following, scores, largest, targets);
      if (next.none()) return;
      if (!kFewQueries) tile = tile_of(next);
      kv_tiles_.next_step();
      parity_ ^= 1;
      step = next;
      next = following;
    }
  }

 private:
  static constexpr uint32_t kWarpStrips = kStrips / kTileWarps;
  static constexpr uint32_t kWarpQueries = kTileQueries / kTileWarps;  // queries that a warp finishes
  static constexpr uint32_t kHeadTiles = kHeadDim / kKvTileChannels;
  // KV tiles of the queries' channels (and of the outputs') that a warp holds in registers at once: with many
  // queries, only one.
  static constexpr uint32_t kHeldTiles = kFewQueries ? kHeadTiles : 1;
  // Otherwise keys come through shared memory; with many queries, all warps of the tile share them.
  static constexpr bool kKeysInRegisters = kFewQueries && kHeadTiles == 1;
  // With keys in registers, shared memory has room for all warps' outputs beside one buffer of values: the
  // next leaf's values are in flight as soon as a warp has used its own. Otherwise a warp's outputs overwrite
  // its values, and the next tile is in flight while one is used.
  static constexpr bool kOwnOutputs = kKeysInRegisters;
  static constexpr uint32_t kKvBuffers = kOwnOutputs ? 1 : 2;
  using HeadKvTiles = KvTiles<kHeadDim, !kKeysInRegisters, kKvBuffers>;

  struct Scratch {
    typename HeadKvTiles::KvBuffers buffers;
    WarpOutput outputs[kOwnOutputs ? kConsumerWarps : 1];
    float largest[2][kQueries][kTileWarps];  // of the current leaf and the previous one
    float sums[kQueries][kTileWarps];
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

  __device__ __forceinline__ uint32_t tile_index() const { return warp_ / kTileWarps; }
  __device__ __forceinline__ uint32_t warp_of_tile() const { return warp_ % kTileWarps; }
  __device__ __forceinline__ uint32_t strip(uint32_t i) const { return warp_of_tile() * kWarpStrips + i; }
  // Index in the tile of the query that the lane holds a part of.
  __device__ __forceinline__ uint32_t query_of_lane(uint32_t fragment) const {
    return fragment * kFragmentQueries + Scores::row_of(group_.lane, 0, 0);
  }

  // Each lane looks up one query; other lanes get it by a shuffle.
  __device__ __forceinline__ Tile tile_of(const Step& step) const {
    const uint32_t first = step.first_query + tile_index() * kTileQueries;
    const Queries::Query own = queries_.at(step.item, first + group_.lane % kTileQueries);
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

  // Computes the scores of the warp's strips, and publishes their maxima to the other warps of the tile.
  __device__ __forceinline__ void score(const Step& step, const Step& next, Tile& tile,
                                        Scores (&scores)[kWarpStrips][kQueryFragments]) {
#pragma unroll
    for (uint32_t i = 0; i < kWarpStrips; ++i) {
#pragma unroll
      for (Scores& s : scores[i]) tiles::fill(s, 0);
    }
    if constexpr (kKeysInRegisters) {
      if (step.item.sees_strip(warp_)) add_scores(scores[0], tile.queries[0], keys_.tile());
      keys_.load(source_, next, 0, next.none() ? 0 : source_.rows(next.item));
    } else {
      score_shared(step, next, tile, scores);
    }
    publish_largest(step, tile, scores);
  }
  __device__ __forceinline__ void score_shared(const Step& step, const Step& next, Tile& tile,
                                               Scores (&scores)[kWarpStrips][kQueryFragments]) const {
#pragma unroll kHeldTiles
    for (uint32_t h = 0; h < kHeadTiles; ++h) {
      if (!kFewQueries) fetch(tile, h);
      kv_tiles_.wait();
      if (!kFewQueries) group_.sync();
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        if (!step.item.sees_strip(strip(i))) continue;
        Keys keys;
        tiles::load_terms(keys, kv_tiles_.buffer(h, strip(i)).tile, group_.lane);
        add_scores(scores[i], tile.queries[h % kHeldTiles], keys);
      }
      if (!kFewQueries && h + 1 == kHeadTiles) break;  // the barrier that follows covers this KV tile, too
      kFewQueries ? __syncwarp() : group_.sync();
      kv_tiles_.load_ahead(step, next, next, h);
    }
    // After that barrier, the first tile of the values is visible to all warps.
    if (!kFewQueries) kv_tiles_.wait_all();
  }
  __device__ __forceinline__ void publish_largest(const Step& step, const Tile& tile,
                                                  Scores (&scores)[kWarpStrips][kQueryFragments]) const {
    PerQuery largest[kQueryFragments];
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      largest[e].quadrant[0] = -INFINITY;
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        scale_and_mask(scores[i][e], tile.visible[e], step.item.begin() + strip(i) * kStripTokens,
                       op_.scale * kLog2E, group_.lane);
        tiles::accumulate_rows<tiles::Max>(largest[e], scores[i][e]);
      }
      tiles::reduce_lanes<tiles::Max>(largest[e]);
    }
    publish(scratch_.largest[parity_], largest);
  }

  // Publishes this warp's value for each query.
  __device__ __forceinline__ void publish(float (&to)[kQueries][kTileWarps],
                                          const PerQuery (&values)[kQueryFragments]) const {
    if (group_.lane % tiles::kPairLanes != 0) return;
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e)
      to[tile_index() * kTileQueries + query_of_lane(e)][warp_of_tile()] = values[e].quadrant[0];
  }
  __device__ __forceinline__ void largest_of_leaf(PerQuery (&largest)[kQueryFragments]) const {
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      const uint32_t query = tile_index() * kTileQueries + query_of_lane(e);
      largest[e].quadrant[0] = total_in_pairs<tiles::Max>(scratch_.largest[parity_][query]);
    }
  }

  // Turns scores into weights, and publishes their sums to the other warps of the tile.
  __device__ __forceinline__ void softmax_all(Scores (&scores)[kWarpStrips][kQueryFragments],
                                              const PerQuery (&largest)[kQueryFragments],
                                              Weights (&weights)[kWarpStrips][kQueryFragments]) const {
    PerQuery sums[kQueryFragments];
#pragma unroll
    for (uint32_t e = 0; e < kQueryFragments; ++e) {
      float of_strips[kWarpStrips];
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        softmax(scores[i][e], largest[e]);
        PerQuery sum;
        tiles::reduce_rows<tiles::Sum>(sum, scores[i][e]);
        of_strips[i] = sum.quadrant[0];
        tiles::convert(weights[i][e], scores[i][e]);
      }
      sums[e].quadrant[0] = total_in_pairs<tiles::Sum>(of_strips);
    }
    publish(scratch_.sums, sums);
  }

  __device__ __forceinline__ void accumulate_values(const Step& step, const Step& next, const Step& following,
                                                    Scores (&scores)[kWarpStrips][kQueryFragments],
                                                    const PerQuery (&largest)[kQueryFragments],
                                                    const Targets& targets) const {
    Weights weights[kWarpStrips][kQueryFragments];
    softmax_all(scores, largest, weights);
#pragma unroll 1
    for (uint32_t first = 0; first < kHeadTiles; first += kHeldTiles) {
      const uint32_t last = HeadKvTiles::kFirstValues + first + kHeldTiles - 1;  // KV tile
      Output outputs[kHeldTiles][kQueryFragments];
#pragma unroll
      for (uint32_t h = 0; h < kHeldTiles; ++h) {
        const uint32_t kv_tile = HeadKvTiles::kFirstValues + first + h;
        if (kFewQueries || first > 0) kv_tiles_.wait();
        if (!kFewQueries && first > 0) group_.sync();
        multiply_strips(step, weights, kv_tile, outputs[h]);
        if (kv_tile == last) continue;
        __syncwarp();
        kv_tiles_.load_ahead(step, next, following, kv_tile);
      }
      if (!kFewQueries) group_.sync();
      if (kOwnOutputs) {
        __syncwarp();
        kv_tiles_.load_ahead(step, next, following, last);
      }
      share_outputs(last, outputs);
      group_.sync();
      store(step, first, last, targets);
      if (kOwnOutputs || (next.none() && last == HeadKvTiles::kCount - 1)) continue;
      group_.sync();  // the outputs have been read
      kv_tiles_.load_ahead(step, next, following, last);
    }
  }
  __device__ __forceinline__ void multiply_strips(const Step& step,
                                                  const Weights (&weights)[kWarpStrips][kQueryFragments],
                                                  uint32_t kv_tile, Output (&total)[kQueryFragments]) const {
#pragma unroll
    for (Output& t : total) tiles::fill(t, 0);
#pragma unroll
    for (uint32_t i = 0; i < kWarpStrips; ++i) {
      if (!step.item.sees_strip(strip(i))) continue;
      add_output(total, weights[i], kv_tiles_.buffer(kv_tile, strip(i)).tile, group_.lane);
    }
  }

  // Shared memory for a warp's outputs, which the other warps of the tile read: if there is none of its own,
  // that of the values which the warp loaded. The outputs are read before the next leaf's barrier.
  __device__ __forceinline__ WarpOutput* outputs_of(uint32_t kv_tile, uint32_t warp) const {
    return kOwnOutputs ? &scratch_.outputs[warp] : kv_tiles_.buffer(kv_tile, warp).outputs;
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
      const uint32_t query = warp_of_tile() * kWarpQueries + i + group_.lane / kQueryLanes;  // in the tile
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
    if (first_tile == 0 && warp_of_tile() == 0) store_scalars(step, targets, leaf);
  }
  // Sum of two channels over the strips.
  __device__ __forceinline__ float2 total_of(uint32_t strips, uint32_t kv_tile, uint32_t output, uint32_t row,
                                             uint32_t channel) const {
    float2 halves[2] = {};
#pragma unroll
    for (uint32_t w = 0; w < kTileWarps; ++w) {
      if (w * kWarpStrips >= strips) break;
      const WarpOutput& outputs = outputs_of(kv_tile, tile_index() * kTileWarps + w)[output];
      const float2 of_warp = *reinterpret_cast<const float2*>(outputs.at(row, channel));
      float2& half = halves[2 * w / kTileWarps];
      half = {half.x + of_warp.x, half.y + of_warp.y};
    }
    return {halves[0].x + halves[1].x, halves[0].y + halves[1].y};
  }
  // Stores the largest score and the sum of weights after a head's channels, for all queries of the tile, one
  // a lane.
  __device__ __forceinline__ void store_scalars(const Step& step, const Targets& targets,
                                                uint64_t leaf) const {
    if (group_.lane >= kTileQueries || targets.tokens <= step.item.begin()) return;
    const uint32_t query = tile_index() * kTileQueries + group_.lane;
    *reinterpret_cast<float2*>(targets.partial + leaf + kHeadDim) = {
        total_in_pairs<tiles::Max>(scratch_.largest[parity_][query]) * kLn2,
        total_in_pairs<tiles::Sum>(scratch_.sums[query])};
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
using FewQueries = Leaves<Config, kHeadDim, kConsumerWarps>;
template <class Config, uint32_t kHeadDim>
using ManyQueries = Leaves<Config, kHeadDim, 2>;

}  // namespace serval::device::attention
