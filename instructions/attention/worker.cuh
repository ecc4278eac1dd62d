// The arithmetic of attention: a group of warps, a leaf at a time.
//
// Each warp takes a strip of 32 of the leaf's tokens and keeps its keys and values in registers, as the
// tensor cores want them. Queries come in tiles of 8. A warp computes
//
//   scores[token, query]    = keys × queriesᵀ
//   weights[token, query]   = exp(score - the leaf's largest score)
//   output[channel, query]  = valuesᵀ × weights
//
// and hands its largest scores, sums and output to the others through shared memory; the outputs of the
// strips are added first to last. What a query gets depends on nothing but itself and the leaf: tokens that
// it does not see have weight 0, and adding zeros to a sum that began at +0 changes no bit.
//
// The next leaf's keys are loaded as soon as the last scores of this one are there, its values after the last
// product with them, so that memory is busy while the warps compute.
#pragma once

#include "instructions/attention/items.cuh"
#include "vm/tiles/ptx_math.cuh"
#include "vm/tiles/ptx_memory.cuh"
#include "vm/tiles/tiles.cuh"

namespace serval::device::attention {

inline constexpr uint32_t kStripTokens = kLeafTokens / kConsumerWarps;
inline constexpr uint32_t kTileQueries = 8;
static_assert(kTileQueries == kConsumerWarps, "warp w brings query w of each tile and stores its result");

// kTiles: tiles of queries between two barriers.
template <uint32_t kHeadDim, uint32_t kTiles>
class Worker {
 public:
  __device__ __forceinline__ Worker(const Attention& op, const Group& group)
      : op_(op),
        group_(group),
        scratch_(*reinterpret_cast<Scratch*>(group.scratch)),
        items_(op, group),
        warp_(__shfl_sync(kAllLanes, group.warp, 0)),
        queries_(op) {}

  __device__ __forceinline__ void run() {
    Step step = first_batch(items_.first());
    if (step.item.none()) return;
    fetch_queries(step);
    load_keys(step);
    load_values(step);
    const PartialLayout layout{op_.lanes, queries_.heads(), kHeadDim};
    partial_cols_ = layout.cols(op_.max_context);
    put_queries(step);
    group_.sync();
    for (;;) {
      const Step next = after(step);
      const bool other_leaf = next.first_query == 0;
      const bool other_queries = next.item.rows != step.item.rows || next.first_query != step.first_query;
      Scores scores[kTiles];
      score(step, scores);
      if (other_leaf) load_keys(next);
      if (other_queries) fetch_queries(next);
      group_.sync();
      PerQuery largest[kTiles];
      weigh(step, scores, largest);
      if (other_leaf) load_values(next);
      if (other_queries) put_queries(next);
      group_.sync();
      store(step, layout, largest);
      if (next.item.none()) return;
      step = next;
    }
  }

 private:
  static constexpr uint32_t kBatchQueries = kTiles * kTileQueries;
  // Values and outputs come in spans of channels, one after the other, to save registers.
  static constexpr uint32_t kSpanChannels = tiles::kSingleSpan;
  static constexpr uint32_t kSpans = kHeadDim / kSpanChannels;
  static constexpr uint32_t kLaneChannels = kHeadDim / kWarpThreads;

  using Keys = tiles::RegisterTile<tiles::Bf16, kStripTokens, kHeadDim, tiles::Layout::kRow,
                                   tiles::Order::kNatural, tiles::Order::kWide>;
  using QueryTile = tiles::RegisterTile<tiles::Bf16, kTileQueries, kHeadDim, tiles::Layout::kRow,
                                        tiles::Order::kNatural, tiles::Order::kWide>;
  using StagedValues = tiles::ColumnStage<tiles::Bf16, kStripTokens, kSpanChannels>;
  using Values = tiles::RegisterTile<tiles::Bf16, kStripTokens, kSpanChannels, tiles::Layout::kCol,
                                     tiles::Order::kNatural, tiles::Order::kWide>;
  using Scores = tiles::Accumulator<kStripTokens, kTileQueries>;
  using Weights = tiles::RegisterTile<tiles::Bf16, kStripTokens, kTileQueries, tiles::Layout::kRow>;
  using WeightOperand = tiles::RegisterTile<tiles::Bf16, kStripTokens, kTileQueries, tiles::Layout::kCol>;
  using PerQuery = tiles::ColumnVector<Scores>;
  using Output = tiles::Accumulator<kSpanChannels, kTileQueries, tiles::Order::kWide>;
  using SharedQueries = tiles::SharedTile<tiles::Bf16, kTileQueries, kHeadDim, tiles::WideSwizzle>;
  using SharedOutput = tiles::SharedTile<float, kTileQueries, kSpanChannels, tiles::TransposeSwizzle>;
  using Cache = tiles::GlobalTile<const tiles::Bf16, tiles::Coherence::kGpu>;
  // What a lane brings of a query.
  using Channels = std::conditional_t<kLaneChannels == 2, uint32_t, uint2>;
  static_assert(sizeof(Channels) == kLaneChannels * sizeof(tiles::Bf16));

  struct Scratch {
    float largest[kBatchQueries][kConsumerWarps];
    float sum[kBatchQueries][kConsumerWarps];
    uint32_t tokens[kBatchQueries];  // that the query sees, of the whole sequence
    SharedQueries queries[kTiles];
    SharedOutput output[kTiles][kConsumerWarps][kSpans];
  };
  static_assert(sizeof(Scratch) <= kScratchBytes);

  // What is done between two visits to the top of the loop: up to kBatchQueries queries of an item.
  struct Step {
    Item item;
    uint32_t first_query;
    uint64_t strip;  // where this warp's strip begins in the KV cache
  };

  __device__ __forceinline__ Step first_batch(const Item& item) const {
    if (!is_live(item)) return {item, 0, 0};
    constexpr uint32_t kStripsOfBlock = kKvBlockTokens / kStripTokens;
    const auto* table = group_.tensor<&Attention::block_table, const int32_t>();
    const int32_t block = __ldg(table + size_t{item.slot} * blocks_for_tokens(op_.max_context) +
                                item.leaf * kLeafBlocks + warp_ / kStripsOfBlock);
    const uint32_t token = warp_ % kStripsOfBlock * kStripTokens;
    return {item, 0, kv_offset(static_cast<uint64_t>(block), op_.kv_head, token, op_.kv_heads, kHeadDim)};
  }
  __device__ __forceinline__ Step after(const Step& step) {
    const uint32_t first = step.first_query + kBatchQueries;
    if (first < queries_.places(step.item)) return {step.item, first, step.strip};
    return first_batch(items_.after(step.item));
  }
  __device__ __forceinline__ bool has_tile(const Step& step, uint32_t tile) const {
    return tile == 0 || step.first_query + tile * kTileQueries < queries_.places(step.item);
  }
  // Whether some row sees a token of this warp's strip.
  __device__ __forceinline__ bool is_live(const Item& item) const {
    return item.begin() + warp_ * kStripTokens < item.tokens;
  }
  __device__ __forceinline__ Queries::Query own_query(const Step& step, uint32_t tile) const {
    return queries_.at(step.item, step.first_query + tile * kTileQueries + warp_);
  }

  __device__ __forceinline__ void load_keys(const Step& step) {
    if (!is_live(step.item)) return;
    const auto* cache = group_.tensor<&Attention::k_cache, const tiles::Bf16>();
    tiles::load(keys_, Cache{cache + step.strip, kHeadDim});
  }
  __device__ __forceinline__ void load_values(const Step& step) {
    if (!is_live(step.item)) return;
    const auto* cache = group_.tensor<&Attention::v_cache, const tiles::Bf16>() + step.strip;
#pragma unroll
    for (uint32_t span = 0; span < kSpans; ++span) {
      tiles::load(values_[span], Cache{cache + span * kSpanChannels, kHeadDim});
    }
  }

  // Queries go from global memory to registers and from there, when they have come, to shared memory.
  __device__ __forceinline__ void fetch_queries(const Step& step) {
    const auto* q = group_.tensor<&Attention::q, const tiles::Bf16>() + kLaneChannels * group_.lane;
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      const Queries::Query query = own_query(step, tile);
      if (!query.exists) continue;
      const uint64_t vector = query.row * op_.q_heads + op_.kv_head * queries_.heads() + query.head;
      fetched_[tile] = tiles::ptx::load_relaxed(reinterpret_cast<const Channels*>(q + vector * kHeadDim));
      fetched_tokens_[tile] = group_.rows[query.row].position + 1;
    }
  }
  __device__ __forceinline__ void put_queries(const Step& step) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      auto* to = scratch_.queries[tile].at(warp_, kLaneChannels * group_.lane);
      *reinterpret_cast<Channels*>(to) = fetched_[tile];
      scratch_.tokens[tile * kTileQueries + warp_] = fetched_tokens_[tile];
    }
  }

  // Scores are kept in units of ln 2, for exp2.
  __device__ __forceinline__ void score(const Step& step, Scores (&scores)[kTiles]) {
    if (!is_live(step.item)) {
      publish_nothing(step);
      return;
    }
    const float scale = op_.scale * kLog2E;
    const uint32_t first_token = step.item.begin() + warp_ * kStripTokens;
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      QueryTile queries;
      tiles::load(queries, scratch_.queries[tile]);
      tiles::fill(scores[tile], 0);
      tiles::mma_abt(scores[tile], keys_, queries);
      const auto* tokens = reinterpret_cast<const uint2*>(&scratch_.tokens[own_columns(tile)]);
      tiles::map_columns(scores[tile], scores[tile], tiles::ColumnVector<Scores, uint32_t>{{*tokens}},
                         [&](float score, uint32_t visible, uint32_t row) {
                           return first_token + row < visible ? score * scale : -INFINITY;
                         });
      PerQuery largest;
      tiles::reduce_columns<tiles::Max>(largest, scores[tile]);
      publish(scratch_.largest, tile, largest.quadrant[0]);
    }
  }
  __device__ __forceinline__ void publish_nothing(const Step& step) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      publish(scratch_.largest, tile, {-INFINITY, -INFINITY});
    }
  }

  // The first of the two columns of a tile of scores that this lane holds.
  __device__ __forceinline__ uint32_t own_columns(uint32_t tile) const {
    return tile * kTileQueries + 2 * (group_.lane % tiles::kPairLanes);
  }
  // One value for each query of a tile, from this warp.
  __device__ __forceinline__ void publish(float (&to)[kBatchQueries][kConsumerWarps], uint32_t tile,
                                          const float2& values) {
    if (group_.lane >= tiles::kPairLanes) return;
    to[own_columns(tile)][warp_] = values.x;
    to[own_columns(tile) + 1][warp_] = values.y;
  }
  __device__ __forceinline__ float largest_of(uint32_t query) const {
    static_assert(kConsumerWarps == 8, "two float4");
    const auto* strips = reinterpret_cast<const float4*>(scratch_.largest[query]);
    const float4 a = strips[0], b = strips[1];
    return fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)), fmaxf(fmaxf(b.x, b.y), fmaxf(b.z, b.w)));
  }

  __device__ __forceinline__ void weigh(const Step& step, Scores (&scores)[kTiles],
                                        PerQuery (&largest)[kTiles]) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      const uint32_t column = own_columns(tile);
      largest[tile].quadrant[0] = {largest_of(column), largest_of(column + 1)};
      float2 sum{0, 0};
      if (is_live(step.item)) {
        tiles::map_columns(scores[tile], scores[tile], largest[tile],
                           [](float score, float most, uint32_t) { return tiles::ptx::exp2(score - most); });
        PerQuery sums;
        tiles::reduce_columns<tiles::Sum>(sums, scores[tile]);
        sum = sums.quadrant[0];
        accumulate(tile, scores[tile]);
      }
      publish(scratch_.sum, tile, sum);
    }
  }
  __device__ __forceinline__ void accumulate(uint32_t tile, const Scores& weights) {
    Weights rounded;
    tiles::convert(rounded, weights);
    WeightOperand operand;
    tiles::swap_layout(operand, rounded);
#pragma unroll
    for (uint32_t span = 0; span < kSpans; ++span) {
      Values values;
      tiles::zip(values, values_[span]);
      Output output;
      tiles::fill(output, 0);
      tiles::mma_atb(output, values, operand);
      tiles::store_transposed(scratch_.output[tile][warp_][span], output);
    }
  }

  // Adds up the strips of the query of each tile that belongs to this warp, and stores it.
  __device__ __forceinline__ void store(const Step& step, const PartialLayout& layout,
                                        const PerQuery (&largest)[kTiles]) {
    float* partial = group_.tensor<&Attention::partial, float>() +
                     layout.row(op_.kv_head, op_.lane, 0) * partial_cols_ +
                     step.item.round * layout.leaf_cols();
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (!has_tile(step, tile)) continue;
      const float2 pair = largest[tile].quadrant[0];
      const float most =
          __shfl_sync(kAllLanes, warp_ % 2 == 0 ? pair.x : pair.y, static_cast<int>(warp_ / 2));
      const Queries::Query query = own_query(step, tile);
      if (!query.exists || group_.rows[query.row].position < step.item.begin()) continue;
      float* to = partial + query.row * partial_cols_ + query.head * (kHeadDim + PartialLayout::kExtra);
      store_output(step, tile, to);
      if (group_.lane == 0) *reinterpret_cast<float2*>(to + kHeadDim) = {most * kLn2, sum_of(tile)};
    }
  }
  __device__ __forceinline__ void store_output(const Step& step, uint32_t tile, float* to) const {
    static_assert(kSpanChannels == 2 * kWarpThreads, "a lane adds up two channels of a span");
    const uint32_t live_warps = (step.item.visible() + kStripTokens - 1) / kStripTokens;
    const uint32_t channel = 2 * group_.lane;
#pragma unroll
    for (uint32_t span = 0; span < kSpans; ++span) {
      float2 parts[kConsumerWarps];
#pragma unroll
      for (uint32_t w = 0; w < kConsumerWarps; ++w) {
        parts[w] = {0, 0};
        const auto* part = scratch_.output[tile][w][span].at(warp_, channel);
        if (w < live_warps) parts[w] = *reinterpret_cast<const float2*>(part);
      }
      float2 total{0, 0};
#pragma unroll
      for (uint32_t w = 0; w < kConsumerWarps; ++w) {
        total.x += parts[w].x;
        total.y += parts[w].y;
      }
      *reinterpret_cast<float2*>(to + span * kSpanChannels + channel) = total;
    }
  }
  __device__ __forceinline__ float sum_of(uint32_t tile) const {
    const auto* strips = reinterpret_cast<const float4*>(scratch_.sum[tile * kTileQueries + warp_]);
    const float4 a = strips[0], b = strips[1];
    return ((((((a.x + a.y) + a.z) + a.w) + b.x) + b.y) + b.z) + b.w;
  }

  static constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

  const Attention& op_;
  const Group& group_;
  Scratch& scratch_;
  Items items_;
  uint32_t warp_;  // group.warp; the compiler sees that it is the same in all lanes
  Queries queries_;
  uint64_t partial_cols_ = 0;
  Keys keys_;
  StagedValues values_[kSpans];
  Channels fetched_[kTiles];
  uint32_t fetched_tokens_[kTiles];
};

}  // namespace serval::device::attention
