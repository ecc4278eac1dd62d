// The form of a tile for up to 8 query heads of rows, as decoding has them:
//
//   scores[token, query]    = keys × queriesᵀ              all in shared memory
//   output[channel, query] += valuesᵀ × weightsᵀ           likewise
//
// A warp has 16 of the 64 tokens and, of each part of 64 channels, 16; a lane those at lane / 4 and 8 behind,
// of two neighbouring queries: an eighth of the scores and sums that a lane of a full tile has, most of which
// are then of rows that are not there. What a query's tokens have in common goes through shared memory.
//
// A stream of few blocks runs through this code about once, and instructions that have not run lately come
// slowly: so there is one loop with one copy of each product, where nothing overlaps.
#pragma once

#include "instructions/planned_attention/tile.cuh"

namespace serval::device::planned {

template <class Config, uint32_t kHeadDim>
class NarrowTile : public Tile<NarrowTile<Config, kHeadDim>, Config, kHeadDim, 4, kHeadDim / 16> {
  using Base = Tile<NarrowTile, Config, kHeadDim, 4, kHeadDim / 16>;
  friend Base;

 public:
  // The parity of the warpgroup's barrier outlives the tile.
  __device__ __forceinline__ NarrowTile(const PlannedAttention& op, const Group& group,
                                        uint32_t& together_parity)
      : Base(op, group),
        work_(memory_.narrow[warpgroup_]),
        operands_(memory_.narrow_operands[warpgroup_]),
        together_parity_(together_parity) {}

  // In kernels of single rows, the warpgroup's part of the record's n-th stream: one of its heads, whose
  // pages no other warpgroup reads.
  __device__ __forceinline__ void run_single(const Stream& stream, uint32_t n, uint32_t first_page) {
    const uint32_t heads = Config::uniform(stream.heads);
    // A head alone falls to the warpgroups in turn.
    const uint32_t mine = heads > 1 ? warpgroup_ : (warpgroup_ + n) % kWarpgroups;
    if (mine >= heads) return;
    this->first_page_ = first_page + mine;
    this->head_ = Config::uniform(stream.head) + mine;
    pages_apart_ = heads;
    if (this->find_rows(stream)) multiply(stream, Config::uniform(stream.blocks));
  }

 private:
  using Base::group_;
  using Base::kPartSteps;
  using Base::kScores;
  using Base::kSteps;
  using Base::kSums;
  using Base::memory_;
  using Base::warp_;
  using Base::warpgroup_;
  using typename Base::Memory;
  static constexpr uint32_t kForm = 1;

  __device__ __forceinline__ uint32_t& together_parity() { return together_parity_; }
  static constexpr uint32_t query_of(uint32_t n) { return n % 2; }
  __device__ __forceinline__ uint32_t tile_row(uint32_t i) const {
    return 2 * (group_.lane % kQuadLanes) + i;
  }
  // Of the lane's two tokens or channels of 64.
  __device__ __forceinline__ uint32_t row(uint32_t half) const {
    return warp_ * 16 + half * 8 + group_.lane / kQuadLanes;
  }

  __device__ __forceinline__ void begin_scores(float (&scores)[kScores], uint32_t keys) const {
    const ptx::WgmmaOperand q = ptx::wgmma_operand(ptx::shared_address(operands_.queries[0]));
    const ptx::WgmmaOperand k = ptx::wgmma_operand(keys);
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t c = 0; c < Memory::kParts * kPartSteps; ++c) {
      const uint32_t part = c / kPartSteps, next = c % kPartSteps * ptx::kWgmmaNextTerms;
      ptx::wgmma_bf16_shared(scores, k + part * (kPartBytes / 16) + next,
                             q + part * (kNarrowRows * kRowBytes / 16) + next, c != 0);
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void begin_output(float (&o)[kSums], uint32_t values, bool adds) const {
    const ptx::WgmmaOperand v = ptx::wgmma_operand_transposed(values, kPartBytes);
    const ptx::WgmmaOperand w = ptx::wgmma_operand(ptx::shared_address(operands_.weights));
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t t = 0; t < kSteps; ++t) {
#pragma unroll
      for (uint32_t p = 0; p < Memory::kParts; ++p)
        ptx::wgmma_bf16_shared_transposed(reinterpret_cast<float(&)[4]>(o[4 * p]),
                                          v + p * (kPartBytes / 16) + t * ptx::kWgmmaNextTransposedTerms,
                                          w + t * ptx::kWgmmaNextTerms, adds || t != 0);
    }
    ptx::wgmma_commit();
  }

  // Where the keys of the stream's b-th block are, and its values.
  __device__ __forceinline__ uint32_t keys_page(uint32_t b) const {
    if constexpr (!Config::kHasFullTiles) return this->first_page_ + 2 * b * pages_apart_;
    return this->first_page_ + (b == 0 ? 0 : 2 * b - 1);
  }
  __device__ __forceinline__ uint32_t values_page(uint32_t b, bool is_last) const {
    if constexpr (!Config::kHasFullTiles) return this->first_page_ + (2 * b + 1) * pages_apart_;
    return this->first_page_ + 2 * b + (is_last ? 1 : 2);
  }

  __device__ __forceinline__ void multiply(const Stream& stream, uint32_t blocks) {
    float o[kSums] = {}, scores[kScores] = {};  // products count as reading what they add to
    typename Base::LeafMemory memory;
    typename Base::Leaves leaves(memory);
    const uint32_t first_block = Config::uniform(stream.first_block);
    this->template share_queries<kNarrowRows, Memory::kParts>(stream, operands_.queries[0]);
    const uint32_t tokens = Config::uniform(stream.tokens % kKvBlockTokens);
    this->begin_leaf(leaves);
#pragma unroll 1
    for (uint32_t b = 0;; ++b) {
      const uint32_t block = first_block + b;
      const bool is_last = b + 1 == blocks;
      const uint32_t keys = keys_page(b);
      this->wait_page(keys);
      begin_scores(scores, this->page_address(keys));
      ptx::wgmma_wait<0>();
      this->free_page(keys);
      PerQuery shrink;
      soften(scores, block * kKvBlockTokens, shrink);
      add_weights(shrink);
#pragma unroll
      for (uint32_t n = 0; n < kSums; ++n) o[n] *= shrink[query_of(n)];
      const uint32_t page = values_page(b, is_last), values = this->page_address(page);
      this->wait_page(page);
      if (is_last && tokens != 0) this->clear_values(values, tokens);
      begin_output(o, values, block % kLeafBlocks != 0);
      ptx::wgmma_wait<0>();
      this->free_page(page);
      if (is_last) break;
      if ((block + 1) % kLeafBlocks == 0) end(stream, block, o, leaves);
    }
    exit_if_requested(group_.exit);
    const uint32_t last = first_block + blocks - 1;
    end(stream, last, o, leaves);
    if (first_block == 0) this->finish(stream, last < kLeafBlocks, o, leaves);
  }
  // `block`: the last one of its leaf.
  __device__ __forceinline__ void end(const Stream& stream, uint32_t block, const float (&o)[kSums],
                                      typename Base::Leaves& leaves) {
    this->begin_leaf(leaves);
    this->end_leaf(stream, block / kLeafBlocks, o, leaves);
  }

  // Scores become weights, which are then in shared memory: rounded, and as they are for the totals.
  __device__ __forceinline__ void soften(float (&scores)[kScores], uint32_t first, PerQuery& shrink) {
    PerQuery most = {-INFINITY, -INFINITY};
#pragma unroll
    for (uint32_t n = 0; n < kScores; ++n) {
      if (first + row(n / 2) >= this->visible_[n % 2]) scores[n] = -INFINITY;
      most[n % 2] = fmaxf(most[n % 2], scores[n]);
    }
    find_most(most);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float base = this->begin_weights(i, most[i], shrink);
#pragma unroll
      for (uint32_t n = i; n < kScores; n += 2) scores[n] = this->weight(scores[n], base);
    }
    share_weights(scores);
  }
  // Of the warpgroup's tokens.
  __device__ __forceinline__ void find_most(PerQuery& most) {
#pragma unroll
    for (uint32_t lanes = kQuadLanes; lanes < kWarpThreads; lanes *= 2) {
#pragma unroll
      for (float& m : most) m = fmaxf(m, __shfl_xor_sync(kAllLanes, m, lanes));
    }
    constexpr uint32_t kWarpBytes = sizeof(work_.most[0]);
    const uint32_t at = ptx::shared_address(work_.most) + group_.lane % kQuadLanes * sizeof(float2);
    if (group_.lane < kQuadLanes) ptx::shared_store(at + warp_ * kWarpBytes, float2{most[0], most[1]});
    this->sync_warpgroup();
#pragma unroll
    for (uint32_t warp = 0; warp < kWarpgroupWarps; ++warp) {
      const float2 of = ptx::shared_load_pair(at + warp * kWarpBytes);
      most[0] = fmaxf(most[0], of.x);
      most[1] = fmaxf(most[1], of.y);
    }
  }
  __device__ __forceinline__ void share_weights(const float (&weights)[kScores]) {
    const uint32_t at = ptx::shared_address(work_.weights) + row(0) * sizeof(work_.weights[0]) +
                        group_.lane % kQuadLanes * sizeof(float2);
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half)
      ptx::shared_store(at + half * 8 * sizeof(work_.weights[0]),
                        float2{weights[2 * half], weights[2 * half + 1]});
    // As bf16: a row for each query, first this warp's lower 8 tokens, then its others, swizzled.
    const uint32_t query = group_.lane % 8, piece = warp_ * 2 + group_.lane / 8 % 2;
    ptx::store_matrices_transposed(
        ptx::shared_address(operands_.weights) + query * kRowBytes + (piece ^ query) * 16,
        ptx::pack_bf16(weights[0], weights[1]), ptx::pack_bf16(weights[2], weights[3]));
    ptx::fence_proxy_async_shared();
    this->sync_warpgroup();
  }
  // Each warp adds up all weights, in the order of a full tile: lane l those of query l / 4, and of each 8
  // tokens those of 2 (l mod 4) and the next.
  __device__ __forceinline__ void add_weights(const PerQuery& shrink) {
    const uint32_t query = group_.lane / kQuadLanes, quad_lane = group_.lane % kQuadLanes;
    const uint32_t from =
        ptx::shared_address(work_.weights) + (quad_lane * 2 * kNarrowRows + query) * sizeof(float);
    const float own = of_query(shrink);
    float total = 0;
#pragma unroll
    for (uint32_t b = 0; b < kKvBlockTokens / 8; ++b) {
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j)
        total += ptx::shared_load_float(from + (b * 8 + j) * sizeof(work_.weights[0]));
    }
    this->total_[0] = __fmaf_rn(this->total_[0], own, total);
  }
  // Of query lane / 4, what a lane has that has the query among its two.
  __device__ __forceinline__ float of_query(const PerQuery& values) const {
    const uint32_t from = group_.lane / (2 * kQuadLanes);
    const float even = __shfl_sync(kAllLanes, values[0], from), odd = __shfl_sync(kAllLanes, values[1], from);
    return group_.lane / kQuadLanes % 2 == 0 ? even : odd;
  }
  __device__ __forceinline__ void add_lanes(PerQuery& total) const {
    float sum = total[0];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) total[i] = __shfl_sync(kAllLanes, sum, tile_row(i) * kQuadLanes);
  }

  // True for the lane that writes what belongs to the query as a whole.
  __device__ __forceinline__ bool write_sums(float* to, uint32_t i, const float (&sums)[kSums]) const {
#pragma unroll
    for (uint32_t n = 0; n < kSums / 2; ++n)
      ptx::store_relaxed(to + n / 2 * kPartChannels + row(n % 2), sums[2 * n + i]);
    return warp_ == 0 && group_.lane < kQuadLanes;
  }
  // Lanes of neighbouring channels exchange halves, so that each has a pair of one query's: of the first in
  // even rows, of the second in odd ones.
  __device__ __forceinline__ void write_output(const Stream& stream, const float (&sums)[kSums],
                                               const PerQuery& total) const {
    const uint32_t i = group_.lane / kQuadLanes % 2;
    const float shares[] = {1.0F / total[0], 1.0F / total[1]};
#pragma unroll
    for (uint32_t n = 0; n < kSums / 2; ++n) {
      const float even = __fmul_rn(sums[2 * n], shares[0]), odd = __fmul_rn(sums[2 * n + 1], shares[1]);
      const float other = __shfl_xor_sync(kAllLanes, i == 0 ? odd : even, kQuadLanes);
      const uint32_t pair = i == 0 ? ptx::pack_bf16(even, other) : ptx::pack_bf16(other, odd);
      if (!(i == 0 ? this->writes_[0] : this->writes_[1])) continue;
      const uint32_t channel = n / 2 * kPartChannels + row(n % 2);
      std::byte* piece = this->output_piece(stream, i, channel / 32 * 32, channel % 8 / 2);
      *reinterpret_cast<uint32_t*>(piece + channel % 32 / 8 * sizeof(uint32_t)) = pair;
    }
  }

  NarrowWork& work_;
  typename Memory::NarrowOperands& operands_;
  uint32_t& together_parity_;
  uint32_t pages_apart_ = 1;  // in kernels of single rows
};

}  // namespace serval::device::planned
