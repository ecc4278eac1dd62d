// The arithmetic of attention: a group of warps, a leaf and a tile of queries at a time.
//
// Each warp takes a strip of 32 of the leaf's tokens. It computes
//
//   scores[token, query]    = keys × queriesᵀ
//   weights[token, query]   = exp(score - the leaf's largest score)
//   output[channel, query]  = valuesᵀ × weights
//
// and hands its largest scores, its sums and its output to the others through shared memory; the outputs of
// the strips are added first to last. What a query gets depends on nothing but itself and the leaf: tokens
// that it does not see have weight 0, and adding zeros to a sum that began at +0 changes no bit.
//
// A strip's keys, then its values, come in parts of 64 channels. Two parts of each warp are in shared memory
// or on their way, and as soon as one is used up the next but one is loaded in its place, be it of this leaf
// or of the next. So memory is busy while the warps compute. The last part's place is the exception: there a
// warp's output waits for the others first.
#pragma once

#include "instructions/attention/items.cuh"
#include "vm/tiles/ptx_math.cuh"
#include "vm/tiles/ptx_memory.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kStripTokens = kLeafTokens / kConsumerWarps;
inline constexpr uint32_t kStripsOfBlock = kKvBlockTokens / kStripTokens;
inline constexpr uint32_t kPartChannels = 64;
inline constexpr uint32_t kPlaces = 2;  // for a warp's parts

// kQueries: of a tile.
template <uint32_t kHeadDim, uint32_t kQueries>
class Worker {
 public:
  __device__ __forceinline__ Worker(const Attention& op, const Group& group)
      : op_(op),
        group_(group),
        scratch_(*reinterpret_cast<Scratch*>(group.scratch)),
        queries_(op),
        items_(op, group),
        warp_(__shfl_sync(kAllLanes, group.warp, 0)) {}

  __device__ __forceinline__ void run() {
    Step step = first_tile(items_.first());
    if (step.item.none()) return;
    fetch_queries(step);
#pragma unroll
    for (uint32_t part = 0; part < kPlaces; ++part) load_part(step, part);
    put_queries();
    group_.sync();
    for (;;) {
      const Step next = after(step);
      const bool other_queries = next.item.rows != step.item.rows || next.first_query != step.first_query;
      const Targets targets = targets_of(step);
      Scores scores;
      score(step, next, targets.tokens, scores);
      if (other_queries) fetch_queries(next);
      group_.sync();
      PerQuery largest;
      weigh(step, next, scores, largest);
      if (other_queries) put_queries();
      group_.sync();
      store(step, targets, largest);
      if (next.item.none()) return;
      group_.sync();  // now the outputs have been read
      load_part(next, kPlaces - 1);
      step = next;
    }
  }

 private:
  static constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;
  static constexpr uint32_t kHalves = kHeadDim / kPartChannels;  // parts of a strip's keys, and of its values
  static constexpr uint32_t kParts = 2 * kHalves;
  static constexpr uint32_t kOwnQueries = kQueries / kConsumerWarps;         // that a warp brings
  static constexpr uint32_t kWarpChannels = kPartChannels / kConsumerWarps;  // that a warp adds up of a part
  static constexpr int kColumns = kQueries / tiles::kQuadrant;  // pairs of queries that a lane has to do with

  using QueryTile = tiles::RegisterTile<tiles::Bf16, kQueries, kPartChannels>;
  using Keys = tiles::RegisterTile<tiles::Bf16, kStripTokens, kPartChannels>;
  using Values = tiles::RegisterTile<tiles::Bf16, kStripTokens, kPartChannels, tiles::Layout::kCol>;
  using Scores = tiles::Accumulator<kStripTokens, kQueries>;
  using Weights = tiles::RegisterTile<tiles::Bf16, kStripTokens, kQueries>;
  using WeightOperand = tiles::RegisterTile<tiles::Bf16, kStripTokens, kQueries, tiles::Layout::kCol>;
  using Output = tiles::Accumulator<kPartChannels, kQueries>;
  using PerQuery = tiles::ColumnVector<Scores>;
  using Cache = tiles::GlobalTile<const tiles::Bf16>;

  using SharedPart = tiles::SharedTile<tiles::Bf16, kStripTokens, kPartChannels>;
  using SharedQueries = tiles::SharedTile<tiles::Bf16, kQueries, kPartChannels>;
  using SharedOutput = tiles::SharedTile<float, kPartChannels, kQueries, tiles::NoSwizzle>;
  union Place {
    SharedPart part;
    SharedOutput output[kHalves];
  };
  static_assert(sizeof(Place) == sizeof(SharedPart));
  struct Scratch {
    Place places[kPlaces][kConsumerWarps];
    SharedQueries queries[kHalves];
    float largest[kQueries][kConsumerWarps];
    float sum[kQueries][kConsumerWarps];
    uint32_t tokens[kQueries];  // that the query sees, of the whole sequence; 0 if it is none
    float* partial[kQueries];   // where its result goes for the slot's first leaf
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);

  // A tile of queries of an item.
  struct Step {
    Item item;
    uint32_t first_query;
    int32_t block;  // of this warp's strip, in the KV cache
  };

  __device__ __forceinline__ Step first_tile(const Item& item) const {
    if (!is_live(item)) return {item, 0, 0};
    const auto* table = group_.tensor<&Attention::block_table, const int32_t>();
    const size_t first = size_t{item.slot} * blocks_for_tokens(op_.max_context) + item.leaf * kLeafBlocks;
    return {item, 0, __ldg(table + first + warp_ / kStripsOfBlock)};
  }
  __device__ __forceinline__ Step after(const Step& step) {
    const uint32_t first = step.first_query + kQueries;
    if (first < queries_.end(static_cast<uint32_t>(__popc(step.item.rows))))
      return {step.item, first, step.block};
    return first_tile(items_.after(step.item));
  }
  // Whether some row sees a token of this warp's strip.
  __device__ __forceinline__ bool is_live(const Item& item) const {
    return item.begin() + warp_ * kStripTokens < item.tokens;
  }

  // Parts are counted through a strip's keys and its values.
  __device__ __forceinline__ Place& place(uint32_t part) const {
    return scratch_.places[part % kPlaces][warp_];
  }
  __device__ __forceinline__ void load_part(const Step& step, uint32_t part) {
    if (is_live(step.item)) {
      const auto* cache = part < kHalves ? group_.tensor<&Attention::k_cache, const tiles::Bf16>()
                                         : group_.tensor<&Attention::v_cache, const tiles::Bf16>();
      const uint64_t strip = kv_offset(static_cast<uint64_t>(step.block), op_.kv_head,
                                       warp_ % kStripsOfBlock * kStripTokens, op_.kv_heads, kHeadDim);
      tiles::load_async(place(part).part, Cache{cache + strip + part % kHalves * kPartChannels, kHeadDim});
    }
    tiles::commit_async();
  }
  // Returns when the older of the two parts on their way has landed.
  static __device__ __forceinline__ void wait_part() {
    tiles::wait_async<kPlaces - 1>();
  }
  // Part `part` of `step` has been used; its place is free, unless it is the last.
  __device__ __forceinline__ void load_ahead(const Step& step, const Step& next, uint32_t part) {
    if (part == kParts - 1) return;
    __syncwarp();
    if (part + kPlaces < kParts) {
      load_part(step, part + kPlaces);
    } else {
      load_part(next, part + kPlaces - kParts);
    }
  }

  // Queries go from global memory to registers and from there, when they have come, to shared memory.
  __device__ __forceinline__ void fetch_queries(const Step& step) {
    const auto* q = group_.tensor<&Attention::q, const uint16_t>() + 2 * group_.lane;
#pragma unroll
    for (uint32_t i = 0; i < kOwnQueries; ++i) {
      const Queries::Query query = queries_.at(step.item, step.first_query + i * kConsumerWarps + warp_);
      fetched_[i].query = query;
      if (!query.exists) continue;
      const uint64_t vector = query.row * op_.q_heads + op_.kv_head * queries_.heads() + query.head;
#pragma unroll
      for (uint32_t h = 0; h < kHalves; ++h) {
        const auto* from = q + vector * kHeadDim + h * kPartChannels;
        fetched_[i].channels[h] = ptx::load_relaxed(reinterpret_cast<const uint32_t*>(from));
      }
    }
  }
  __device__ __forceinline__ void put_queries() {
    const PartialLayout layout{op_.lanes, queries_.heads(), kHeadDim};
    const uint64_t cols = layout.cols(op_.max_context);
    float* partial = group_.tensor<&Attention::partial, float>();
#pragma unroll
    for (uint32_t i = 0; i < kOwnQueries; ++i) {
      const uint32_t n = i * kConsumerWarps + warp_;
      const auto& [query, channels] = fetched_[i];
      scratch_.tokens[n] = query.exists ? group_.rows[query.row].position + 1 : 0;
      scratch_.partial[n] =
          partial + layout.row(op_.kv_head, op_.lane, query.row) * cols + layout.col(0, query.head);
#pragma unroll
      for (uint32_t h = 0; h < kHalves; ++h) {
        *reinterpret_cast<uint32_t*>(scratch_.queries[h].at(n, 2 * group_.lane)) = channels[h];
      }
    }
  }

  // What a lane has to know of the queries whose columns it holds.
  struct Targets {
    tiles::ColumnVector<Scores, uint32_t> tokens;
    float* to[kColumns][2];
  };
  __device__ __forceinline__ Targets targets_of(const Step& step) const {
    const PartialLayout layout{op_.lanes, queries_.heads(), kHeadDim};
    const uint64_t leaf = step.item.round * layout.leaf_cols();
    Targets targets;
    tiles::load(targets.tokens, scratch_.tokens);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        targets.to[c][i] = scratch_.partial[Scores::col_of(group_.lane, c, i)] + leaf;
    }
    return targets;
  }

  // Scores are in units of ln 2, for exp2. The other warps are told the largest.
  __device__ __forceinline__ void score(const Step& step, const Step& next,
                                        const tiles::ColumnVector<Scores, uint32_t>& tokens, Scores& scores) {
    const bool live = is_live(step.item);
    tiles::fill(scores, 0);
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      QueryTile queries;
      tiles::load_right(queries, scratch_.queries[h]);
      wait_part();
      if (live) {
        Keys keys;
        tiles::load_left(keys, place(h).part);
        tiles::mma_abt(scores, keys, queries);
      }
      load_ahead(step, next, h);
    }
    PerQuery largest;
    tiles::fill(largest, -INFINITY);
    if (live) {
      const float scale = op_.scale * kLog2E;
      const uint32_t first_token = step.item.begin() + warp_ * kStripTokens;
      tiles::map_columns(scores, scores, tokens, [&](float score, uint32_t visible, uint32_t row) {
        return first_token + row < visible ? score * scale : -INFINITY;
      });
      tiles::reduce_columns<tiles::Max>(largest, scores);
    }
    publish(scratch_.largest, largest);
  }

  // A value for each query, from this warp.
  __device__ __forceinline__ void publish(float (&to)[kQueries][kConsumerWarps], const PerQuery& values) {
    if (group_.lane >= tiles::kPairLanes) return;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      to[Scores::col_of(group_.lane, c, 0)][warp_] = values.quadrant[c].x;
      to[Scores::col_of(group_.lane, c, 1)][warp_] = values.quadrant[c].y;
    }
  }
  // What all warps published.
  template <class Reduction>
  __device__ __forceinline__ void published(PerQuery& dst,
                                            const float (&values)[kQueries][kConsumerWarps]) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      dst.quadrant[c] = {reduce_warps<Reduction>(values[Scores::col_of(group_.lane, c, 0)]),
                         reduce_warps<Reduction>(values[Scores::col_of(group_.lane, c, 1)])};
    }
  }
  // Neighbours first: pairs, then fours, then all.
  template <class Reduction>
  static __device__ __forceinline__ float reduce_warps(const float (&values)[kConsumerWarps]) {
    static_assert(kConsumerWarps == 8, "two float4");
    const auto* four = reinterpret_cast<const float4*>(values);
    const float4 a = four[0], b = four[1];
    return Reduction::of(Reduction::of(Reduction::of(a.x, a.y), Reduction::of(a.z, a.w)),
                         Reduction::of(Reduction::of(b.x, b.y), Reduction::of(b.z, b.w)));
  }

  // Turns scores into weights and finds the largest of all strips; leaves sums and output to the other warps.
  __device__ __forceinline__ void weigh(const Step& step, const Step& next, Scores& scores,
                                        PerQuery& largest) {
    const bool live = is_live(step.item);
    published<tiles::Max>(largest, scratch_.largest);
    WeightOperand weights;
    if (live) {
      tiles::map_columns(scores, scores, largest,
                         [](float score, float most, uint32_t) { return tiles::ptx::exp2(score - most); });
      Weights rounded;
      tiles::convert(rounded, scores);
      tiles::swap_layout(weights, rounded);
    }
    Output output[kHalves];
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) {
      wait_part();
      if (live) {
        Values values;
        tiles::load_left(values, place(kHalves + h).part);
        tiles::fill(output[h], 0);
        tiles::mma_atb(output[h], values, weights);
      }
      load_ahead(step, next, kHalves + h);
    }
    PerQuery sum;
    tiles::fill(sum, 0);
    if (live) tiles::reduce_columns<tiles::Sum>(sum, scores);
    publish(scratch_.sum, sum);
    if (!live) return;
    __syncwarp();
#pragma unroll
    for (uint32_t h = 0; h < kHalves; ++h) tiles::store(place(kParts - 1).output[h], output[h]);
  }

  // Adds up the strips of some of the channels of every query and stores them.
  __device__ __forceinline__ void store(const Step& step, const Targets& targets,
                                        const PerQuery& largest) const {
    const uint32_t live_warps = (step.item.visible() + kStripTokens - 1) / kStripTokens;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const uint2 tokens = targets.tokens.quadrant[c];
      const bool sees[2] = {tokens.x > step.item.begin(), tokens.y > step.item.begin()};
#pragma unroll
      for (uint32_t h = 0; h < kHalves; ++h) {
        const uint32_t channel = warp_ * kWarpChannels + group_.lane / tiles::kPairLanes;
        const float2 total = total_of(live_warps, h, channel, c);
        if (sees[0]) targets.to[c][0][h * kPartChannels + channel] = total.x;
        if (sees[1]) targets.to[c][1][h * kPartChannels + channel] = total.y;
      }
    }
    if (warp_ != kConsumerWarps - 1 || group_.lane >= tiles::kPairLanes) return;
    PerQuery sum;
    published<tiles::Sum>(sum, scratch_.sum);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float2 most = largest.quadrant[c], sums = sum.quadrant[c];
      const uint2 tokens = targets.tokens.quadrant[c];
      if (tokens.x > step.item.begin()) store_scalars(targets.to[c][0], most.x, sums.x);
      if (tokens.y > step.item.begin()) store_scalars(targets.to[c][1], most.y, sums.y);
    }
  }
  static __device__ __forceinline__ void store_scalars(float* to, float largest, float sum) {
    *reinterpret_cast<float2*>(to + kHeadDim) = {largest * kLn2, sum};
  }
  // Of a channel of a half and the queries of column c that belong to this lane.
  __device__ __forceinline__ float2 total_of(uint32_t live_warps, uint32_t half, uint32_t channel,
                                             int c) const {
    const Place(&strips)[kConsumerWarps] = scratch_.places[(kParts - 1) % kPlaces];
    float2 parts[kConsumerWarps];
#pragma unroll
    for (uint32_t w = 0; w < kConsumerWarps; ++w) {
      parts[w] = {0, 0};
      const float* part = strips[w].output[half].at(channel, Scores::col_of(group_.lane, c, 0));
      if (w < live_warps) parts[w] = *reinterpret_cast<const float2*>(part);
    }
    float2 total{0, 0};
#pragma unroll
    for (const float2& part : parts) {
      total.x += part.x;
      total.y += part.y;
    }
    return total;
  }

  // A query on its way to shared memory, and this lane's channels of it.
  struct Fetched {
    Queries::Query query;
    uint32_t channels[kHalves];
  };

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  Queries queries_;
  Items items_;
  uint32_t warp_;  // group.warp; the compiler sees that it is the same in all lanes
  Fetched fetched_[kOwnQueries];
};

}  // namespace serval::device::attention
