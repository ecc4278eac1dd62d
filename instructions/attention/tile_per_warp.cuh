// Attention of many queries, such as a chunk of a prompt has: each warp takes a tile of queries and goes
// through all strips of the leaf, which the warps have brought together. The sums are those of StripPerWarp
// to the bit.
//
// Keys and values of a leaf have to be in shared memory at the same time, so this is for 64 channels only.
#pragma once

#include "instructions/attention/parts.cuh"

namespace serval::device::attention {

class TilePerWarp {
 public:
  static constexpr uint32_t kHeadDim = kPartChannels;

  __device__ __forceinline__ TilePerWarp(const Attention& op, const Group& group)
      : op_(op),
        group_(group),
        scratch_(*reinterpret_cast<Scratch*>(group.scratch)),
        warp_(__shfl_sync(kAllLanes, group.warp, 0)),
        queries_(op),
        steps_(op, group, queries_, warp_),
        parts_(op, group, scratch_.places, warp_) {}

  __device__ __forceinline__ void run() {
    Step step = steps_.first();
    if (step.none()) return;
    parts_.load_first(step);
    Tile tile = tile_of(step);
    for (;;) {
      const Step next = steps_.after(step);
      parts_.wait<kPlaces>();
      group_.sync();
      if (tile.exists) compute(step.item, tile);
      if (next.none()) return;
      group_.sync();
#pragma unroll
      for (uint32_t part = 0; part < kPlaces; ++part) parts_.load_ahead(step, next, part);
      if (!next.same_queries(step)) tile = tile_of(next);
      step = next;
    }
  }

 private:
  struct Place {
    SharedPart part;
  };
  struct Scratch {
    Place places[kPlaces][kStrips];
    float sums[kConsumerWarps][kTileQueries][kStrips];
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);
  static constexpr uint32_t kKeys = 0, kValues = 1;  // parts

  // The warp's queries, and what a lane has to know of the two whose columns it holds.
  struct Tile {
    bool exists;
    QueryTile queries;
    QueryTokens tokens;  // 0 for what is no query
    float* partial[2];
  };

  __device__ __forceinline__ Tile tile_of(const Step& step) const {
    const uint32_t first = step.first_query + warp_ * kTileQueries;
    Tile tile;
    tile.exists = first < queries_.end(static_cast<uint32_t>(__popc(step.item.rows)));
    const Queries::Query own = queries_.at(step.item, first + QueryTile::row_of(group_.lane, 0, 0));
    const auto* q = group_.tensor<&Attention::q, const tiles::Bf16>() + queries_.vector(op_, own) * kHeadDim;
    tiles::load_rows<tiles::Coherence::kGpu>(tile.queries, q, group_.lane);
    const uint32_t column = first + Scores::col_of(group_.lane, 0, 0);
    uint32_t tokens[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const Queries::Query query = queries_.at(step.item, column + i);
      tokens[i] = query.exists ? group_.rows[query.row].position + 1 : 0;
      tile.partial[i] = queries_.place(op_, group_, kHeadDim, query);
    }
    tile.tokens.quadrant[0] = {tokens[0], tokens[1]};
    return tile;
  }

  __device__ __forceinline__ void compute(const Item& item, const Tile& tile) const {
    const uint32_t strips = item.strips();
    PerQuery largest;
    tiles::fill(largest, -INFINITY);
#pragma unroll 1
    for (uint32_t s = 0; s < strips; ++s) {
      Scores scores;
      score(item, tile, s, scores);
      tiles::accumulate_columns<tiles::Max>(largest, scores);
    }
    tiles::reduce_lanes<tiles::Max>(largest);
    Output total;
    tiles::fill(total, 0);
    clear_sums();
#pragma unroll 1
    for (uint32_t s = 0; s < strips; ++s) {
      Scores scores;
      score(item, tile, s, scores);
      soften(scores, largest);
      WeightOperand weights;
      round(weights, scores);
      Output output;
      weigh(output, weights, parts_.place(kValues, s).part, group_.lane);
      put_sum(s, scores);
      tiles::add(total, total, output);
    }
    store(item, tile, largest, total);
  }
  __device__ __forceinline__ void score(const Item& item, const Tile& tile, uint32_t strip,
                                        Scores& scores) const {
    tiles::fill(scores, 0);
    add_scores(scores, tile.queries, parts_.place(kKeys, strip).part, group_.lane);
    scale_and_mask(scores, tile.tokens, item.begin() + strip * kStripTokens, op_.scale * kLog2E, group_.lane);
  }

  // The strips' sums of weights; the ones that nobody sees are 0.
  __device__ __forceinline__ void clear_sums() const {
    auto* all = &scratch_.sums[warp_][0][0];
    for (uint32_t n = group_.lane; n < kTileQueries * kStrips; n += kWarpThreads) all[n] = 0;
    __syncwarp();
  }
  __device__ __forceinline__ void put_sum(uint32_t strip, const Scores& weights) const {
    PerQuery sum;
    tiles::reduce_columns<tiles::Sum>(sum, weights);
    if (group_.lane >= tiles::kPairLanes) return;
    const uint32_t query = Scores::col_of(group_.lane, 0, 0);
    scratch_.sums[warp_][query][strip] = sum.quadrant[0].x;
    scratch_.sums[warp_][query + 1][strip] = sum.quadrant[0].y;
  }

  __device__ __forceinline__ void store(const Item& item, const Tile& tile, const PerQuery& largest,
                                        const Output& total) const {
    const uint64_t leaf = item.round * queries_.layout(op_, kHeadDim).leaf_cols();
    const uint2 tokens = tile.tokens.quadrant[0];
    const bool sees[2] = {tokens.x > item.begin(), tokens.y > item.begin()};
    float* const to[2] = {tile.partial[0] + leaf, tile.partial[1] + leaf};
#pragma unroll
    for (int r = 0; r < Output::kQuadrantRows; ++r) {
      const uint32_t channel = Output::row_of(group_.lane, r, 0);
      if (sees[0]) to[0][channel] = total.quadrant[r][0].x;
      if (sees[1]) to[1][channel] = total.quadrant[r][0].y;
    }
    __syncwarp();
    if (group_.lane >= tiles::kPairLanes) return;
    const auto& sums = scratch_.sums[warp_];
    const uint32_t query = Scores::col_of(group_.lane, 0, 0);
    if (sees[0]) store_scalars(to[0] + kHeadDim, largest.quadrant[0].x, total_of<tiles::Sum>(sums[query]));
    if (sees[1])
      store_scalars(to[1] + kHeadDim, largest.quadrant[0].y, total_of<tiles::Sum>(sums[query + 1]));
  }

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  uint32_t warp_;  // group.warp; the compiler sees that it is the same in all lanes
  Queries queries_;
  Steps<kConsumerWarps * kTileQueries> steps_;
  Parts<kHeadDim, Place> parts_;
};

}  // namespace serval::device::attention
