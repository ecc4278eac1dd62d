// Attention over the leaves of an instance: some warps work on the same tile of queries, each on some strips
// of the leaf, and then each finishes some of the queries.
//
// Few queries (a token or two of each sequence) are one tile of 8, a strip a warp: of heads of 64 it has
// the keys of its strip in registers. Many, such as a chunk of a prompt has, are tiles of 16, half a leaf a
// warp: each key and value that a warp reads serves 16 queries. The sums are the same to the bit.
#pragma once

#include "instructions/attention/kv_tiles.cuh"

namespace serval::device::attention {

template <class Config, uint32_t kHeadDim, uint32_t kTileWarpsOf>
class Leaves {
 public:
  static constexpr uint32_t kTileWarps = kTileWarpsOf;
  static constexpr uint32_t kTiles = kConsumerWarps / kTileWarps;  // at a time
  static constexpr bool kFew = kTiles == 1;
  static constexpr uint32_t kEights = kFew ? 1 : 2;
  static constexpr uint32_t kTileQueries = kEights * kEight;
  static constexpr uint32_t kQueries = kTiles * kTileQueries;  // at a time

  __device__ __forceinline__ Leaves(const Attention& op, const Group& group)
      : op_(op),
        group_(group),
        scratch_(*reinterpret_cast<Scratch*>(group.scratch)),
        warp_(__shfl_sync(kAllLanes, group.warp, 0)),
        queries_(op),
        steps_(op, group, queries_, warp_),
        source_{op, group, warp_},
        parts_(source_, scratch_.places) {}

  // What earlier passes have left in the cache is on its way before the inputs are there.
  __device__ __forceinline__ void run() {
    Step step = steps_.first();
    if (step.none()) return;
    const uint32_t known = steps_.tokens_before(step);
    const uint32_t known_rows = source_.rows_before(step.item, known);
    if (kKeysInRegisters) keys_.load(source_, step, 0, known_rows);
    parts_.load_known(step, known);
    Tile tile = tile_of(step);
    Step next = steps_.after(step);
    group_.wait_inputs();
    if (kFew) fetch(tile, 0);
    if (kKeysInRegisters) keys_.load(source_, step, known_rows, source_.rows(step.item));
    parts_.load_new(step, next, known);
    for (;;) {
      Scores scores[kWarpStrips][kEights];
      score(step, next, tile, scores);
      const Targets targets = tile.targets;
      const Step following = steps_.after(next);
      if (kFew && !next.none() && !next.same_queries(step)) {
        tile = tile_of(next);
        fetch(tile, 0);
      }
      group_.sync();
      if (!kFew) parts_.load_ahead(step, next, following, kHalves - 1);
      PerQuery largest[kEights];
      largest_of_leaf(largest);
      weigh(step, next, following, scores, largest, targets);
      if (next.none()) return;
      if (!kFew) tile = tile_of(next);
      parts_.next_step();
      turn_ ^= 1;
      step = next;
      next = following;
    }
  }

 private:
  static constexpr uint32_t kWarpStrips = kStrips / kTileWarps;
  static constexpr uint32_t kWarpQueries = kTileQueries / kTileWarps;  // that a warp finishes
  static constexpr uint32_t kHalves = kHeadDim / kPartChannels;
  // Halves of the queries' channels that a warp has in registers at once, and of the outputs': many queries
  // leave room for one.
  static constexpr uint32_t kHeldHalves = kFew ? kHalves : 1;
  // Else they come through shared memory, for all warps of the tile if there are many queries.
  static constexpr bool kKeysInRegisters = kFew && kHalves == 1;
  // Then there is room for the outputs of all warps beside one place for values: those of the next leaf are
  // on their way as soon as a warp has used its own. Else a warp's outputs lie where its values were, and the
  // next part is on its way while one is used.
  static constexpr bool kOwnOutputs = kKeysInRegisters;
  static constexpr uint32_t kPlaces = kOwnOutputs ? 1 : 2;
  using HeadParts = Parts<kHeadDim, !kKeysInRegisters, kPlaces>;

  struct Scratch {
    typename HeadParts::Places places;
    WarpOutput outputs[kOwnOutputs ? kConsumerWarps : 1];
    float largest[2][kQueries][kTileWarps];  // of the leaf in hand and of the one before
    float sums[kQueries][kTileWarps];
  };
  static_assert(sizeof(Scratch) <= Config::kScratchBytes);

  // Of a query, in the lane of its number.
  struct Targets {
    uint32_t tokens;  // that it sees, of the whole sequence; 0 if there is no such query
    float* partial;   // where its result goes for the slot's first leaf
  };
  struct Tile {
    Targets targets;
    uint32_t vectors[kEights];  // the lane's queries, among all heads of all rows
    QueryTokens visible[kEights];
    Queries8 queries[kHeldHalves][kEights];
  };

  __device__ __forceinline__ uint32_t tile_index() const { return warp_ / kTileWarps; }
  __device__ __forceinline__ uint32_t warp_of_tile() const { return warp_ % kTileWarps; }
  __device__ __forceinline__ uint32_t strip(uint32_t i) const { return warp_of_tile() * kWarpStrips + i; }
  // The number in the tile of the query that the lane holds a part of.
  __device__ __forceinline__ uint32_t query_of_lane(uint32_t eight) const {
    return eight * kEight + Scores::row_of(group_.lane, 0, 0);
  }

  // Each lane finds one query; others get it from there.
  __device__ __forceinline__ Tile tile_of(const Step& step) const {
    const uint32_t first = step.first_query + tile_index() * kTileQueries;
    const Queries::Query own = queries_.at(step.item, first + group_.lane % kTileQueries);
    Tile tile;
    tile.targets.tokens = own.exists ? group_.rows[own.row].position + 1 : 0;
    tile.targets.partial = queries_.place(op_, group_, kHeadDim, own);
    const auto vector = static_cast<uint32_t>(queries_.vector(op_, own));
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) {
      const uint32_t query = query_of_lane(e);
      tile.visible[e].quadrant[0] = __shfl_sync(kAllLanes, tile.targets.tokens, query);
      tile.vectors[e] = __shfl_sync(kAllLanes, vector, query);
    }
    return tile;
  }
  __device__ __forceinline__ void fetch(Tile& tile, uint32_t first_half) const {
    const auto* q = group_.tensor<&Attention::q, const tiles::Bf16>() + first_half * kPartChannels;
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) {
      const auto* vector = q + size_t{tile.vectors[e]} * kHeadDim;
#pragma unroll
      for (uint32_t h = 0; h < kHeldHalves; ++h)
        tiles::load_terms<tiles::Coherence::kBlock>(tile.queries[h][e], 0, vector + h * kPartChannels,
                                                    group_.lane);
    }
  }

  // Scores of the warp's strips; tells the other warps of the tile the largest ones.
  __device__ __forceinline__ void score(const Step& step, const Step& next, Tile& tile,
                                        Scores (&scores)[kWarpStrips][kEights]) {
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
                                               Scores (&scores)[kWarpStrips][kEights]) const {
#pragma unroll kHeldHalves
    for (uint32_t h = 0; h < kHalves; ++h) {
      if (!kFew) fetch(tile, h);
      parts_.wait();
      if (!kFew) group_.sync();
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        if (!step.item.sees_strip(strip(i))) continue;
        Keys keys;
        tiles::load_terms(keys, parts_.place(h, strip(i)).part, group_.lane);
        add_scores(scores[i], tile.queries[h % kHeldHalves], keys);
      }
      if (!kFew && h + 1 == kHalves) break;  // the barrier that follows is for this part, too
      kFew ? __syncwarp() : group_.sync();
      parts_.load_ahead(step, next, next, h);
    }
    // With that barrier, the first part of the values is there for all.
    if (!kFew) parts_.wait_all();
  }
  __device__ __forceinline__ void publish_largest(const Step& step, const Tile& tile,
                                                  Scores (&scores)[kWarpStrips][kEights]) const {
    PerQuery largest[kEights];
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) {
      largest[e].quadrant[0] = -INFINITY;
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        scale_and_mask(scores[i][e], tile.visible[e], step.item.begin() + strip(i) * kStripTokens,
                       op_.scale * kLog2E, group_.lane);
        tiles::accumulate_rows<tiles::Max>(largest[e], scores[i][e]);
      }
      tiles::reduce_lanes<tiles::Max>(largest[e]);
    }
    publish(scratch_.largest[turn_], largest);
  }

  // A value for each query, from this warp.
  __device__ __forceinline__ void publish(float (&to)[kQueries][kTileWarps],
                                          const PerQuery (&values)[kEights]) const {
    if (group_.lane % tiles::kPairLanes != 0) return;
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e)
      to[tile_index() * kTileQueries + query_of_lane(e)][warp_of_tile()] = values[e].quadrant[0];
  }
  __device__ __forceinline__ void largest_of_leaf(PerQuery (&largest)[kEights]) const {
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) {
      const uint32_t query = tile_index() * kTileQueries + query_of_lane(e);
      largest[e].quadrant[0] = total_in_pairs<tiles::Max>(scratch_.largest[turn_][query]);
    }
  }

  // Turns scores into weights; tells the other warps of the tile their sums.
  __device__ __forceinline__ void soften_all(Scores (&scores)[kWarpStrips][kEights],
                                             const PerQuery (&largest)[kEights],
                                             Weights (&weights)[kWarpStrips][kEights]) const {
    PerQuery sums[kEights];
#pragma unroll
    for (uint32_t e = 0; e < kEights; ++e) {
      float of_strips[kWarpStrips];
#pragma unroll
      for (uint32_t i = 0; i < kWarpStrips; ++i) {
        soften(scores[i][e], largest[e]);
        PerQuery sum;
        tiles::reduce_rows<tiles::Sum>(sum, scores[i][e]);
        of_strips[i] = sum.quadrant[0];
        tiles::convert(weights[i][e], scores[i][e]);
      }
      sums[e].quadrant[0] = total_in_pairs<tiles::Sum>(of_strips);
    }
    publish(scratch_.sums, sums);
  }

  __device__ __forceinline__ void weigh(const Step& step, const Step& next, const Step& following,
                                        Scores (&scores)[kWarpStrips][kEights],
                                        const PerQuery (&largest)[kEights], const Targets& targets) const {
    Weights weights[kWarpStrips][kEights];
    soften_all(scores, largest, weights);
#pragma unroll 1
    for (uint32_t first = 0; first < kHalves; first += kHeldHalves) {
      const uint32_t last = HeadParts::kFirstValues + first + kHeldHalves - 1;  // part
      Output outputs[kHeldHalves][kEights];
#pragma unroll
      for (uint32_t h = 0; h < kHeldHalves; ++h) {
        const uint32_t part = HeadParts::kFirstValues + first + h;
        if (kFew || first > 0) parts_.wait();
        if (!kFew && first > 0) group_.sync();
        weigh_strips(step, weights, part, outputs[h]);
        if (part == last) continue;
        __syncwarp();
        parts_.load_ahead(step, next, following, part);
      }
      if (!kFew) group_.sync();
      if (kOwnOutputs) {
        __syncwarp();
        parts_.load_ahead(step, next, following, last);
      }
      hand_over(last, outputs);
      group_.sync();
      store(step, first, last, targets);
      if (kOwnOutputs || (next.none() && last == HeadParts::kCount - 1)) continue;
      group_.sync();  // now the outputs have been read
      parts_.load_ahead(step, next, following, last);
    }
  }
  __device__ __forceinline__ void weigh_strips(const Step& step,
                                               const Weights (&weights)[kWarpStrips][kEights], uint32_t part,
                                               Output (&total)[kEights]) const {
#pragma unroll
    for (Output& t : total) tiles::fill(t, 0);
#pragma unroll
    for (uint32_t i = 0; i < kWarpStrips; ++i) {
      if (!step.item.sees_strip(strip(i))) continue;
      add_output(total, weights[i], parts_.place(part, strip(i)).part, group_.lane);
    }
  }

  // Where a warp's outputs go, for the other warps of the tile: in place of the values that it has brought,
  // if they have no place of their own. They are read before the barrier of the next leaf.
  __device__ __forceinline__ WarpOutput* outputs_of(uint32_t part, uint32_t warp) const {
    return kOwnOutputs ? &scratch_.outputs[warp] : parts_.place(part, warp).outputs;
  }
  __device__ __forceinline__ void hand_over(uint32_t part,
                                            const Output (&outputs)[kHeldHalves][kEights]) const {
    WarpOutput* const to = outputs_of(part, warp_);
    __syncwarp();
#pragma unroll
    for (uint32_t h = 0; h < kHeldHalves; ++h) {
#pragma unroll
      for (uint32_t e = 0; e < kEights; ++e) tiles::store(to[h * kEights + e], outputs[h][e], group_.lane);
    }
  }

  // Adds up the strips of the queries that this warp finishes, for some of the halves of the channels.
  __device__ __forceinline__ void store(const Step& step, uint32_t first_half, uint32_t part,
                                        const Targets& targets) const {
    constexpr uint32_t kAtOnce = kWarpQueries < 4 ? kWarpQueries : 4;
    constexpr uint32_t kQueryLanes = kWarpThreads / kAtOnce;
    const uint64_t leaf = step.item.round * queries_.layout(op_, kHeadDim).leaf_cols();
#pragma unroll 1
    for (uint32_t i = 0; i < kWarpQueries; i += kAtOnce) {
      const uint32_t query = warp_of_tile() * kWarpQueries + i + group_.lane / kQueryLanes;  // of the tile
      const bool sees = __shfl_sync(kAllLanes, targets.tokens, query) > step.item.begin();
      float* const to = shuffle(targets.partial, query) + leaf + first_half * kPartChannels;
#pragma unroll
      for (uint32_t h = 0; h < kHeldHalves; ++h) {
#pragma unroll
        for (uint32_t c = 0; c < kPartChannels; c += 2 * kQueryLanes) {
          const uint32_t channel = c + 2 * (group_.lane % kQueryLanes);
          const float2 total =
              total_of(step.item.strips(), part, h * kEights + query / kEight, query % kEight, channel);
          if (sees) *reinterpret_cast<float2*>(to + h * kPartChannels + channel) = total;
        }
      }
    }
    if (first_half == 0 && warp_of_tile() == 0) store_scalars(step, targets, leaf);
  }
  // Of two channels, over the strips.
  __device__ __forceinline__ float2 total_of(uint32_t strips, uint32_t part, uint32_t output, uint32_t row,
                                             uint32_t channel) const {
    float2 halves[2] = {};
#pragma unroll
    for (uint32_t w = 0; w < kTileWarps; ++w) {
      if (w * kWarpStrips >= strips) break;
      const WarpOutput& outputs = outputs_of(part, tile_index() * kTileWarps + w)[output];
      const float2 of_warp = *reinterpret_cast<const float2*>(outputs.at(row, channel));
      float2& half = halves[2 * w / kTileWarps];
      half = {half.x + of_warp.x, half.y + of_warp.y};
    }
    return {halves[0].x + halves[1].x, halves[0].y + halves[1].y};
  }
  // Largest score and sum of weights follow a head's channels. All queries of the tile, a lane each.
  __device__ __forceinline__ void store_scalars(const Step& step, const Targets& targets,
                                                uint64_t leaf) const {
    if (group_.lane >= kTileQueries || targets.tokens <= step.item.begin()) return;
    const uint32_t query = tile_index() * kTileQueries + group_.lane;
    *reinterpret_cast<float2*>(targets.partial + leaf + kHeadDim) = {
        total_in_pairs<tiles::Max>(scratch_.largest[turn_][query]) * kLn2,
        total_in_pairs<tiles::Sum>(scratch_.sums[query])};
  }
  static __device__ __forceinline__ float* shuffle(float* pointer, uint32_t lane) {
    return reinterpret_cast<float*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(pointer), static_cast<int>(lane)));
  }

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  uint32_t warp_;  // group.warp; the compiler sees that it is the same in all lanes
  Queries queries_;
  Steps<kQueries> steps_;
  Source source_;
  HeadParts parts_;
  RegisterKeys keys_;  // if they are
  uint32_t turn_ = 0;  // of the leaf in hand
};

template <class Config, uint32_t kHeadDim>
using FewQueries = Leaves<Config, kHeadDim, kConsumerWarps>;
template <class Config, uint32_t kHeadDim>
using ManyQueries = Leaves<Config, kHeadDim, 2>;

}  // namespace serval::device::attention
