// A warpgroup's tile of a stream: up to 64 query heads of rows against the stream's keys, block after block.
//
//   scores[query, token]    = queries × keysᵀ              queries and keys in shared memory, as a rule
//   weights[query, token]   = exp2(score - the largest)
//   output[query, channel] += weights × values             weights in registers, values transposed
//
// A block's scores become weights while the values of the block before are multiplied. Tokens that a query
// does not see have weight 0, and what is beyond the stream's last token is made 0, so that a query gets what
// it would get alone.
#pragma once

#include "instructions/planned_attention/streams.cuh"
#include "instructions/planned_attention/sums.h"
#include "vm/layout/slab_image.h"

namespace serval::device::planned {

inline constexpr uint32_t kQuadLanes = 4;
// Tokens that a query without a row sees: all, so that it hides none from its warp. Its result is not stored.
inline constexpr uint32_t kEverything = 0xffffffff;

// Of a lane's two queries.
using PerQuery = float[2];

template <class Config, uint32_t kHeadDim>
class Tile {
 public:
  using Memory = PlacesOf<Config, kHeadDim>;
  using Op = PlannedAttention;

  __device__ __forceinline__ Tile(const Op& op, const Group& group)
      : op_(op),
        group_(group),
        memory_(*reinterpret_cast<Memory*>(group.scratch)),
        heads_(op.q_heads / op.kv_heads),
        warpgroup_(Config::uniform(group.warp / kWarpgroupWarps)),
        warp_(Config::uniform(group.warp % kWarpgroupWarps)),
        scale_(op.scale * kLog2OfE) {}

  // All streams of the record.
  __device__ __forceinline__ void run() {
#pragma unroll 1
    for (uint32_t n = 0;; ++n) {
      const uint32_t at = n % kStreamSlots;
      wait_phase(&memory_.stream_ready[at], n / kStreamSlots & 1, group_.exit);
      const Stream& stream = memory_.streams[at];
      const uint32_t blocks = Config::uniform(stream.blocks);
      if (blocks == 0) return;
      // Streams of one tile fall to the warpgroups in turn.
      const bool one_tile = stream.item.rows - stream.first_row <= heads_.rows_of_tile();
      tile_ = Config::uniform(one_tile ? (warpgroup_ + n) % kWarpgroups : warpgroup_);
      if (find_rows(stream)) {
        multiply(stream, blocks);
      } else {
        skip_units(2 * blocks);
      }
      first_page_ += 2 * blocks;
      __syncwarp();
      if (group_.lane == 0) ptx::mbarrier_arrive(&memory_.stream_free[at]);
    }
  }

 private:
  static constexpr uint32_t kSums = kHeadDim / 2;          // of a lane
  static constexpr uint32_t kScores = kKvBlockTokens / 2;  // of a lane
  static constexpr uint32_t kSteps = kKvBlockTokens / 16;  // of 16 tokens
  // Queries are in shared memory but for the last part of channels where that is small: 16 channels each.
  static constexpr uint32_t kPartSteps = kPartChannels / 16;
  static constexpr uint32_t kSharedParts = Memory::kSharedParts;
  using Queries = uint32_t[kPartSteps][4];
  using Weights = uint32_t[kSteps][4];

  // What is needed once a leaf is in the thread's local memory, since the products' registers are few; it
  // stays there since the compiler does not know `zero`. Of each 8 channels, o has two of each query; behind
  // these are the largest scores and the totals of both queries, of what leaves have been merged to and of
  // the last leaf.
  using LeafMemory = float4[kSums / 4 + 2];
  class Leaves {
   public:
    __device__ __forceinline__ explicit Leaves(LeafMemory& memory) : memory_(memory) {
      asm volatile("mov.u32 %0, 0;" : "=r"(zero_));
    }
    __device__ __forceinline__ float4& o(uint32_t eight) { return memory_[eight + zero_]; }
    __device__ __forceinline__ float4& merged() { return memory_[kSums / 4 + zero_]; }
    __device__ __forceinline__ float4& ended() { return memory_[kSums / 4 + 1 + zero_]; }

   private:
    LeafMemory& memory_;
    uint32_t zero_;
  };
  static constexpr uint32_t kMergedTogether = 4;

  // --- the tile's rows

  // A row of the tile: a query head of one of the item's rows.
  struct Query {
    uint32_t row;   // of the item's
    uint32_t head;  // of the group's
  };
  __device__ __forceinline__ Query query(const Stream& stream, uint32_t tile_row) const {
    const uint32_t row = heads_.row_of(tile_row);
    return {stream.first_row + tile_ * heads_.rows_of_tile() + row, tile_row - row * heads_.count};
  }
  __device__ __forceinline__ bool exists(const Stream& stream, uint32_t tile_row) const {
    return heads_.row_of(tile_row) < heads_.rows_of_tile() && query(stream, tile_row).row < stream.item.rows;
  }
  __device__ __forceinline__ uint32_t tile_row(uint32_t i) const {
    return warp_ * 16 + group_.lane / kQuadLanes + 8 * i;
  }

  // What the lane's queries see; false if the tile has no rows at all.
  __device__ __forceinline__ bool find_rows(const Stream& stream) {
    if (stream.first_row + tile_ * heads_.rows_of_tile() >= stream.item.rows) return false;
    uint32_t least = kEverything;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      visible_[i] = 0;
      if (exists(stream, tile_row(i)))
        visible_[i] = stream.visible[query(stream, tile_row(i)).row - stream.first_row];
      writes_[i] = visible_[i] != 0;
      if (!writes_[i]) visible_[i] = kEverything;
      least = min(least, visible_[i]);
    }
    least_visible_ = __reduce_min_sync(kAllLanes, least);
    return true;
  }

  // Where a query's channels are, or null.
  __device__ __forceinline__ const uint16_t* query_at(const Stream& stream, uint32_t tile_row) const {
    if (!exists(stream, tile_row)) return nullptr;
    const Query of = query(stream, tile_row);
    const size_t vector =
        size_t{stream.item.first_row + of.row} * op_.q_heads + stream.head * heads_.count + of.head;
    return group_.tensor<&Op::q, const uint16_t>() + vector * kHeadDim;
  }
  // Zeros where there is no query.
  __device__ __forceinline__ void load_queries(const Stream& stream, Queries& queries) {
    if constexpr (kSharedParts > 0) share_queries(stream);
    if constexpr (kSharedParts < Memory::kParts) hold_queries(stream, queries);
  }
  // The last part's in registers.
  __device__ __forceinline__ void hold_queries(const Stream& stream, Queries& queries) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const auto* from = reinterpret_cast<const uint32_t*>(query_at(stream, tile_row(i)));
      const uint32_t first = (Memory::kParts - 1) * (kPartChannels / 2) + group_.lane % kQuadLanes;
#pragma unroll
      for (uint32_t c = 0; c < kPartSteps; ++c) {
        queries[c][i] = from != nullptr ? ptx::load_relaxed(from + first + c * 8) : 0;
        queries[c][i + 2] = from != nullptr ? ptx::load_relaxed(from + first + c * 8 + 4) : 0;
      }
    }
  }
  // To shared memory, 16 bytes of a row a thread.
  __device__ __forceinline__ void share_queries(const Stream& stream) {
    constexpr uint32_t kPieces = kSharedParts * kRowBytes / 16, kThreads = kWarpgroupWarps * kWarpThreads;
    const uint32_t thread = warp_ * kWarpThreads + group_.lane, piece = thread % kPieces;
    sync_warpgroup();  // all are done with the queries before
    uint4 values[kPieces / 2];
#pragma unroll
    for (uint32_t n = 0; n < kPieces / 2; ++n) {
      const uint16_t* from = query_at(stream, thread / kPieces + n * (kThreads / kPieces));
      values[n] = {0, 0, 0, 0};
      if (from != nullptr) values[n] = ptx::load_relaxed(reinterpret_cast<const uint4*>(from) + piece);
    }
    const uint32_t to = ptx::shared_address(memory_.queries[warpgroup_]) + piece / 8 * kPartBytes;
#pragma unroll
    for (uint32_t n = 0; n < kPieces / 2; ++n) {
      const uint32_t r = thread / kPieces + n * (kThreads / kPieces);
      ptx::shared_store(to + r * kRowBytes + ((piece ^ r) % 8) * 16, values[n]);
    }
    ptx::fence_proxy_async_shared();  // the tensor cores will read what this thread has written
    sync_warpgroup();
  }

  // --- pages

  // In the midst of products a warp does not leave: the page may then be any.
  __device__ __forceinline__ uint32_t wait_page(uint32_t page) const {
    const uint32_t at = page % Memory::kPages;
    wait_phase_or_exit(&memory_.landed[at], page / Memory::kPages & 1, group_.exit);
    return ptx::shared_address(memory_.page[at]);
  }
  __device__ __forceinline__ void free_page(uint32_t page) const {
    __syncwarp();
    if (group_.lane == 0) ptx::mbarrier_arrive(&memory_.free[page % Memory::kPages]);
  }
  __device__ __forceinline__ void skip_units(uint32_t pages) const {
#pragma unroll 1
    for (uint32_t p = first_page_; p < first_page_ + pages; ++p) {
      wait_phase(&memory_.landed[p % Memory::kPages], p / Memory::kPages & 1, group_.exit);
      free_page(p);
    }
  }
  __device__ __forceinline__ void sync_warpgroup() {
    uint64_t* barrier = &memory_.together[warpgroup_];
    __syncwarp();
    if (group_.lane == 0) ptx::mbarrier_arrive(barrier);
    wait_phase_or_exit(barrier, together_parity_, group_.exit);
    together_parity_ ^= 1;
  }

  // --- products

  __device__ __forceinline__ void begin_scores(float (&scores)[kScores], const Queries& queries,
                                               uint32_t keys) const {
    const uint64_t q = ptx::wgmma_operand(ptx::shared_address(memory_.queries[warpgroup_]));
    const uint64_t k = ptx::wgmma_operand(keys);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t c = 0; c < Memory::kParts * kPartSteps; ++c) {
      const uint64_t next = c / kPartSteps * (kPartBytes / 16) + c % kPartSteps * ptx::kWgmmaNextTerms;
      if (static_cast<int>(c / kPartSteps) < static_cast<int>(kSharedParts)) {
        ptx::wgmma_bf16_shared(scores, q + next, k + next, c != 0);
      } else {
        ptx::wgmma_bf16<kKvBlockTokens>(scores, queries[c % kPartSteps], k + next, c != 0);
      }
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void begin_output(float (&o)[kSums], const Weights& weights, uint32_t values,
                                               bool adds) const {
    const uint64_t v = ptx::wgmma_operand_transposed(values, kPartBytes);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t t = 0; t < kSteps; ++t)
      ptx::wgmma_bf16_transposed<kHeadDim>(o, weights[t], v + t * ptx::kWgmmaNextTransposedTerms,
                                           adds || t != 0);
    ptx::wgmma_commit();
  }
  // Tokens beyond the last have never been written, or are another sequence's.
  __device__ __forceinline__ void clear_values(uint32_t values, uint32_t tokens) {
    constexpr uint32_t kThreads = kWarpgroupWarps * kWarpThreads, kRowPieces = kRowBytes / 16;
    const uint32_t thread = warp_ * kWarpThreads + group_.lane;
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p) {
      for (uint32_t n = tokens * kRowPieces + thread; n < kKvBlockTokens * kRowPieces; n += kThreads)
        ptx::shared_store(values + p * kPartBytes + n * 16, uint4{0, 0, 0, 0});
    }
    ptx::fence_proxy_async_shared();
    sync_warpgroup();
  }

  // Scores become weights, not yet rounded. `first`: token of the sequence that the block begins with.
  __device__ __forceinline__ void soften(float (&scores)[kScores], uint32_t first, PerQuery& shrink) {
    if (first + kKvBlockTokens > least_visible_) {
#pragma unroll
      for (uint32_t n = 0; n < kScores; ++n) {
        const uint32_t token = first + n / 4 * 8 + group_.lane % kQuadLanes * 2 + n % 2;
        if (token >= visible_[n / 2 % 2]) scores[n] = -INFINITY;
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      float most = fmaxf(scores[2 * i], scores[2 * i + 1]);
#pragma unroll
      for (uint32_t b = 1; b < kScores / 4; ++b)
        most = fmaxf(most, fmaxf(scores[4 * b + 2 * i], scores[4 * b + 2 * i + 1]));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
      const float largest = fmaxf(largest_[i], __fmul_rn(most, scale_));
      // Of a query that has seen no token yet, all weights are 0.
      const float base = largest == -INFINITY ? 0 : largest;
      shrink[i] = ptx::exp2(largest_[i] - base);
      largest_[i] = largest;
      float total = 0;
#pragma unroll
      for (uint32_t b = 0; b < kScores / 4; ++b) {
#pragma unroll
        for (uint32_t j = 0; j < 2; ++j) {
          float& score = scores[4 * b + 2 * i + j];
          score = ptx::exp2(__fmaf_rn(score, scale_, -base));
          total += score;
        }
      }
      total_[i] = __fmaf_rn(total_[i], shrink[i], total);
    }
  }
  static __device__ __forceinline__ void pack(Weights& weights, const float (&scores)[kScores]) {
#pragma unroll
    for (uint32_t t = 0; t < kSteps; ++t) {
#pragma unroll
      for (uint32_t n = 0; n < 4; ++n)
        weights[t][n] = ptx::pack_bf16(scores[8 * t + 2 * n], scores[8 * t + 2 * n + 1]);
    }
  }

  // The loop begins where a block's weights are known and the values of the block before are still being
  // multiplied: so the compiler, which moves nothing from one round to another, does not wait for these
  // earlier.
  __device__ __forceinline__ void multiply(const Stream& stream, uint32_t blocks) {
    float o[kSums] = {}, scores[kScores] = {};  // products count as reading what they add to
    LeafMemory memory;
    Leaves leaves(memory);
    PerQuery shrink;
    const uint32_t first_block = Config::uniform(stream.first_block);
    Queries queries;
    load_queries(stream, queries);
    begin_scores(scores, queries, wait_page(first_page_));
    ptx::wgmma_wait<0>();
    free_page(first_page_);
    begin_leaf(leaves);
    soften(scores, first_block * kKvBlockTokens, shrink);
#pragma unroll 1
    for (uint32_t b = 0;; ++b) {
      const uint32_t block = first_block + b, page = first_page_ + 2 * b;
      const bool begins = block % kLeafBlocks == 0;
      ptx::wgmma_wait<0>();
      if (b > 0) {
        free_page(page);
        if (begins) end_leaf(stream, block / kLeafBlocks - 1, o, leaves);
      }
#pragma unroll
      for (uint32_t n = 0; n < kSums; ++n) o[n] *= shrink[n / 2 % 2];
      Weights weights;
      pack(weights, scores);
      if (b + 1 == blocks) {
        multiply_last(stream, page + 1, o, weights, begins);
        break;
      }
      begin_scores(scores, queries, wait_page(page + 1));
      begin_output(o, weights, wait_page(page + 2), !begins);
      ptx::wgmma_wait<1>();
      free_page(page + 1);
      if ((block + 1) % kLeafBlocks == 0) begin_leaf(leaves);
      soften(scores, (block + 1) * kKvBlockTokens, shrink);
    }
    const uint32_t last_leaf = (first_block + blocks - 1) / kLeafBlocks;
    exit_if_requested(group_.exit);
    begin_leaf(leaves);
    end_leaf(stream, last_leaf, o, leaves);
    if (first_block == 0) finish(stream, last_leaf == 0, o, leaves);
  }
  __device__ __forceinline__ void multiply_last(const Stream& stream, uint32_t page, float (&o)[kSums],
                                                const Weights& weights, bool begins) {
    const uint32_t values = wait_page(page);
    if (stream.tokens % kKvBlockTokens != 0) clear_values(values, stream.tokens % kKvBlockTokens);
    begin_output(o, weights, values, !begins);
    ptx::wgmma_wait<0>();
    free_page(page);
  }

  // --- leaves

  // The leaf before stays known until its last values have been multiplied.
  __device__ __forceinline__ void begin_leaf(Leaves& leaves) {
    leaves.ended() = {largest_[0], largest_[1], total_[0], total_[1]};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      largest_[i] = -INFINITY;
      total_[i] = 0;
    }
  }
  // Leaf `leaf` of the sequence is complete: merged, or written.
  __device__ __forceinline__ void end_leaf(const Stream& stream, uint32_t leaf, const float (&o)[kSums],
                                           Leaves& leaves) const {
    const float4 ended = leaves.ended();
    const PerQuery largest = {ended.x, ended.y};
    PerQuery total = {ended.z, ended.w};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      total[i] += __shfl_xor_sync(kAllLanes, total[i], 1);
      total[i] += __shfl_xor_sync(kAllLanes, total[i], 2);
    }
    if (stream.item.first_leaf != 0) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        if (writes_[i] && visible_[i] > leaf * kPlannedLeafTokens)
          write_place(stream, i, leaf - stream.item.first_leaf, o, largest[i], total[i]);
      }
    } else if (leaf == 0) {
      leaves.merged() = {largest[0], largest[1], total[0], total[1]};
#pragma unroll
      for (uint32_t n = 0; n < kSums / 4; ++n)
        leaves.o(n) = {o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]};
    } else {
      merge(leaf, o, largest, total, leaves);
    }
  }

  __device__ __forceinline__ void merge(uint32_t leaf, const float (&o)[kSums], const PerQuery& leaf_largest,
                                        const PerQuery& leaf_total, Leaves& leaves) const {
    const float4 before = leaves.merged();
    PerQuery largest = {before.x, before.y}, total = {before.z, before.w};
    PerQuery a, b;  // what both sides are multiplied with; a query that does not see the leaf stays as it is
    bool sees[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      sees[i] = visible_[i] > leaf * kPlannedLeafTokens;
      const float larger = fmaxf(largest[i], leaf_largest[i]);
      a[i] = ptx::exp2(largest[i] - larger);
      b[i] = ptx::exp2(leaf_largest[i] - larger);
      if (!sees[i]) continue;
      largest[i] = larger;
      total[i] = __fmaf_rn(leaf_total[i], b[i], __fmul_rn(total[i], a[i]));
    }
    leaves.merged() = {largest[0], largest[1], total[0], total[1]};
    const auto add = [&](uint32_t i, float to, float leaf_o) {
      return sees[i] ? __fmaf_rn(leaf_o, b[i], __fmul_rn(to, a[i])) : to;
    };
#pragma unroll
    for (uint32_t first = 0; first < kSums / 4; first += kMergedTogether) {
      float4 sums[kMergedTogether];
#pragma unroll
      for (uint32_t n = 0; n < kMergedTogether; ++n) sums[n] = leaves.o(first + n);
#pragma unroll
      for (uint32_t n = 0; n < kMergedTogether; ++n) {
        const uint32_t at = 4 * (first + n);
        leaves.o(first + n) = {add(0, sums[n].x, o[at]), add(0, sums[n].y, o[at + 1]),
                               add(1, sums[n].z, o[at + 2]), add(1, sums[n].w, o[at + 3])};
      }
    }
  }

  // `only_leaf`: there was nothing to merge, and `o` has it all.
  __device__ __forceinline__ void finish(const Stream& stream, bool only_leaf, const float (&o)[kSums],
                                         Leaves& leaves) const {
    float sums[kSums];
#pragma unroll
    for (uint32_t n = 0; n < kSums; ++n) sums[n] = o[n];
    if (!only_leaf) {
#pragma unroll
      for (uint32_t n = 0; n < kSums / 4; ++n) {
        const float4 four = leaves.o(n);
        sums[4 * n] = four.x;
        sums[4 * n + 1] = four.y;
        sums[4 * n + 2] = four.z;
        sums[4 * n + 3] = four.w;
      }
    }
    const float4 merged = leaves.merged();
    const PerQuery largest = {merged.x, merged.y}, total = {merged.z, merged.w};
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (!writes_[i]) continue;
      if (stream.item.first_place == kNoPlace) {
        write_output(stream, i, sums, total[i]);
      } else {
        write_place(stream, i, 0, sums, largest[i], total[i]);
      }
    }
  }
  // The lane's part of query i to the `next`-th of its row's places.
  __device__ __forceinline__ void write_place(const Stream& stream, uint32_t i, uint32_t next,
                                              const float (&sums)[kSums], float largest, float total) const {
    const PlaceLayout layout{heads_.count, kHeadDim};
    const Query of = query(stream, tile_row(i));
    float* to = group_.tensor<&Op::partial, float>() +
                size_t{place_of_row(stream.item, of.row) + next} * layout.cols() +
                of.head * layout.head_cols();
    const uint32_t part = group_.lane % kQuadLanes;
#pragma unroll
    for (uint32_t b = 0; b < kSums / 4; ++b)
      ptx::store_relaxed(reinterpret_cast<float2*>(to + b * 8 + part * 2),
                         float2{sums[4 * b + 2 * i], sums[4 * b + 2 * i + 1]});
    if (part == 0) ptx::store_relaxed(reinterpret_cast<float2*>(to + kHeadDim), float2{largest, total});
  }
  // The same of the output, a slab image: of 32 channels, a lane has one piece.
  __device__ __forceinline__ void write_output(const Stream& stream, uint32_t i, const float (&sums)[kSums],
                                               float total) const {
    const Query of = query(stream, tile_row(i));
    const uint32_t image_rows = op_.max_rows, row = stream.item.first_row + of.row;
    const uint32_t first_col = (stream.head * heads_.count + of.head) * kHeadDim;
    auto* image = group_.tensor<&Op::output, std::byte>();
    const float share = 1.0F / total;
#pragma unroll
    for (uint32_t c = 0; c < kHeadDim / 32; ++c) {
      const auto at = slab_image::place(op_.q_heads * kHeadDim, first_col + c * 32);
      uint32_t words[4];
#pragma unroll
      for (uint32_t u = 0; u < 4; ++u) {
        const uint32_t n = 4 * (4 * c + u) + 2 * i;
        words[u] = ptx::pack_bf16(__fmul_rn(sums[n], share), __fmul_rn(sums[n + 1], share));
      }
      *reinterpret_cast<uint4*>(
          image + slab_image::piece_offset(image_rows, row, at.slab, at.piece + group_.lane % kQuadLanes)) = {
          words[0], words[1], words[2], words[3]};
    }
  }

  const Op& op_;
  const Group& group_;
  Memory& memory_;
  const GroupHeads heads_;
  const uint32_t warpgroup_, warp_;
  const float scale_;  // of scores in units of ln 2
  uint32_t tile_ = 0;  // of the stream's two
  uint32_t first_page_ = 0;
  uint32_t together_parity_ = 0;
  uint32_t visible_[2];         // tokens that the lane's queries see
  bool writes_[2];              // they exist
  uint32_t least_visible_ = 0;  // of the warp's queries
  // Of the leaf in hand and of the one before; the totals are the lane's own.
  PerQuery largest_, total_;
};

}  // namespace serval::device::planned
