// Attention of few queries: each warp takes one strip of the leaf. Largest scores, sums and outputs go to the
// other warps through shared memory, which adds two barriers to a leaf, and each warp adds up some channels.
#pragma once

#include "instructions/attention/parts.cuh"

namespace serval::device::attention {

static_assert(kStrips == kConsumerWarps && kTileQueries == kConsumerWarps,
              "a strip and a query for each warp");

template <uint32_t kHeadDim>
class StripPerWarp {
 public:
  __device__ __forceinline__ StripPerWarp(const Attention& op, const Group& group)
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
    fetch_query(step);
    parts_.load_first(step);
    put_query();
    group_.sync();
    Step next = steps_.after(step);
    Targets targets = targets_now();
    for (;;) {
      const bool other_queries = !next.same_queries(step);
      Scores scores;
      score(step, next, targets.tokens, scores);
      if (other_queries) fetch_query(next);
      group_.sync();
      PerQuery largest;
      weigh_strip(step, next, scores, largest);
      if (other_queries) put_query();
      group_.sync();
      store(step, targets, largest);
      if (next.none()) return;
      if (other_queries) targets = targets_now();
      const Step following = steps_.after(next);
      group_.sync();  // now the outputs have been read
      parts_.load_ahead(step, next, kLastPart);
      step = next;
      next = following;
    }
  }

 private:
  union Place {
    SharedPart part;
    // What the warp made of the last part waits here for the others.
    tiles::SharedTile<float, kPartChannels, kTileQueries, tiles::NoSwizzle> output[kHeadDim / kPartChannels];
  };
  static_assert(sizeof(Place) == sizeof(SharedPart));
  struct Scratch {
    Place places[kPlaces][kStrips];
    SharedQueries queries[kHeadDim / kPartChannels];
    float largest[kTileQueries][kStrips];
    float sum[kTileQueries][kStrips];
    uint32_t tokens[kTileQueries];  // that the query sees, of the whole sequence; 0 if it is none
    float* partial[kTileQueries];   // where its result goes for the slot's first leaf
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);

  using HeadParts = Parts<kHeadDim, Place>;
  static constexpr uint32_t kHalves = HeadParts::kHalves;
  static constexpr uint32_t kLastPart = HeadParts::kCount - 1;

  // Query w goes from global memory to the registers of warp w and from there, when it has come, to shared
  // memory.
  __device__ __forceinline__ void fetch_query(const Step& step) {
    fetched_query_ = queries_.at(step.item, step.first_query + warp_);
    const auto* q = group_.tensor<&Attention::q, const uint16_t>() +
                    queries_.vector(op_, fetched_query_) * kHeadDim + 2 * group_.lane;
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      const auto* from = reinterpret_cast<const uint32_t*>(q + h * kPartChannels);
      fetched_[h] = fetched_query_.exists ? ptx::load_relaxed(from) : 0;
    }
  }
  __device__ __forceinline__ void put_query() {
    scratch_.tokens[warp_] = fetched_query_.exists ? group_.rows[fetched_query_.row].position + 1 : 0;
    scratch_.partial[warp_] = queries_.place(op_, group_, kHeadDim, fetched_query_);
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      *reinterpret_cast<uint32_t*>(scratch_.queries[h].at(warp_, 2 * group_.lane)) = fetched_[h];
    }
  }

  // What a lane has to know of the two queries whose columns it holds.
  struct Targets {
    QueryTokens tokens;
    float* partial[2];
  };
  __device__ __forceinline__ Targets targets_now() const {
    Targets targets;
    tiles::load(targets.tokens, scratch_.tokens, group_.lane);
    const uint32_t query = Scores::col_of(group_.lane, 0, 0);
    targets.partial[0] = scratch_.partial[query];
    targets.partial[1] = scratch_.partial[query + 1];
    return targets;
  }

  // Tells the other warps the largest scores.
  __device__ __forceinline__ void score(const Step& step, const Step& next, const QueryTokens& tokens,
                                        Scores& scores) {
    const bool live = step.item.sees_strip(warp_);
    tiles::fill(scores, 0);
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      QueryTile queries;
      tiles::load_right(queries, scratch_.queries[h], group_.lane);
      parts_.template wait<1>();
      if (live) add_scores(scores, queries, parts_.place(h, warp_).part, group_.lane);
      __syncwarp();
      parts_.load_ahead(step, next, h);
    }
    PerQuery largest;
    tiles::fill(largest, -INFINITY);
    if (live) {
      scale_and_mask(scores, tokens, step.item.begin() + warp_ * kStripTokens, op_.scale * kLog2E,
                     group_.lane);
      tiles::reduce_columns<tiles::Max>(largest, scores);
    }
    publish(scratch_.largest, largest);
  }

  // A value for each query, from this warp.
  __device__ __forceinline__ void publish(float (&to)[kTileQueries][kStrips], const PerQuery& values) const {
    if (group_.lane >= tiles::kPairLanes) return;
    const uint32_t query = Scores::col_of(group_.lane, 0, 0);
    to[query][warp_] = values.quadrant[0].x;
    to[query + 1][warp_] = values.quadrant[0].y;
  }
  // What all of them published.
  template <class Reduction>
  __device__ __forceinline__ void published(PerQuery& dst,
                                            const float (&values)[kTileQueries][kStrips]) const {
    const uint32_t query = Scores::col_of(group_.lane, 0, 0);
    dst.quadrant[0] = {total_of<Reduction>(values[query]), total_of<Reduction>(values[query + 1])};
  }

  // Finds the largest scores of all strips; leaves sums and output to the other warps.
  __device__ __forceinline__ void weigh_strip(const Step& step, const Step& next, Scores& scores,
                                              PerQuery& largest) const {
    published<tiles::Max>(largest, scratch_.largest);
    PerQuery sum;
    tiles::fill(sum, 0);
    if (!step.item.sees_strip(warp_)) {
#pragma unroll
      for (uint32_t h = 0; h < kHalves; ++h) use_value_part(step, next, h, [](const SharedPart&) {});
      publish(scratch_.sum, sum);
      return;
    }
    soften(scores, largest);
    WeightOperand weights;
    round(weights, scores);
    Output output[kHalves];
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      use_value_part(step, next, h,
                     [&](const SharedPart& part) { weigh(output[h], weights, part, group_.lane); });
    }
    tiles::reduce_columns<tiles::Sum>(sum, scores);
    publish(scratch_.sum, sum);
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h)
      tiles::store(parts_.place(kLastPart, warp_).output[h], output[h], group_.lane);
  }
  // Waits for a part of the values, calls use(part) and has the next but one loaded in its place; the last
  // part's stays free for the output.
  template <class Use>
  __device__ __forceinline__ void use_value_part(const Step& step, const Step& next, uint32_t half,
                                                 Use&& use) const {
    parts_.template wait<1>();
    use(parts_.place(kHalves + half, warp_).part);
    __syncwarp();
    if (kHalves + half != kLastPart) parts_.load_ahead(step, next, kHalves + half);
  }

  // Adds up the strips of some of the channels of every query and stores them.
  __device__ __forceinline__ void store(const Step& step, const Targets& targets,
                                        const PerQuery& largest) const {
    const uint64_t leaf = step.item.round * queries_.layout(op_, kHeadDim).leaf_cols();
    const uint2 tokens = targets.tokens.quadrant[0];
    const bool sees[2] = {tokens.x > step.item.begin(), tokens.y > step.item.begin()};
    float* const to[2] = {targets.partial[0] + leaf, targets.partial[1] + leaf};
    constexpr uint32_t kWarpChannels = kPartChannels / kConsumerWarps;
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      const uint32_t channel = warp_ * kWarpChannels + group_.lane / tiles::kPairLanes;
      const float2 total = total_of_strips(step.item.strips(), h, channel);
      if (sees[0]) to[0][h * kPartChannels + channel] = total.x;
      if (sees[1]) to[1][h * kPartChannels + channel] = total.y;
    }
    if (warp_ != kConsumerWarps - 1 || group_.lane >= tiles::kPairLanes) return;
    PerQuery sum;
    published<tiles::Sum>(sum, scratch_.sum);
    if (sees[0]) store_scalars(to[0] + kHeadDim, largest.quadrant[0].x, sum.quadrant[0].x);
    if (sees[1]) store_scalars(to[1] + kHeadDim, largest.quadrant[0].y, sum.quadrant[0].y);
  }
  __device__ __forceinline__ float2 total_of_strips(uint32_t strips, uint32_t half, uint32_t channel) const {
    float2 parts[kStrips];
#pragma unroll
    for (uint32_t s = 0; s < kStrips; ++s) {
      parts[s] = {0, 0};
      const float* part =
          parts_.place(kLastPart, s).output[half].at(channel, Scores::col_of(group_.lane, 0, 0));
      if (s < strips) parts[s] = *reinterpret_cast<const float2*>(part);
    }
    float2 total{0, 0};
#pragma unroll
    for (const float2& part : parts) {
      total.x += part.x;
      total.y += part.y;
    }
    return total;
  }

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  uint32_t warp_;  // group.warp; the compiler sees that it is the same in all lanes
  Queries queries_;
  Steps<kTileQueries> steps_;
  HeadParts parts_;
  Queries::Query fetched_query_;
  uint32_t fetched_[kHalves];  // this lane's channels of it
};

}  // namespace serval::device::attention
