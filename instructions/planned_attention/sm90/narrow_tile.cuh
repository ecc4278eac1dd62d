// The form of a tile for up to 8 rows, as in decoding:
//
//   scores[token, query]    = keys × queriesᵀ              all operands in shared memory
//   output[channel, query] += valuesᵀ × weightsᵀ           all operands in shared memory
//
// A warp has 16 of the 64 tokens, and 16 of each part of 64 channels; a lane has those at lane / 4 and lane /
// 4 + 8, for two neighbouring queries. That is an eighth of the scores and sums of a lane in a full tile,
// whose rows would mostly be missing here. Reductions over a query's tokens go through shared memory.
//
// In kernels of single rows, two KV heads of up to 4 query heads each share a tile: each head's keys and
// values are multiplied with all queries, and a query uses the products of its own head.
//
// A stream of few blocks runs through this code about once, and instructions that have not run recently are
// slow to fetch. So there is one loop with one copy of each product, and little overlap.
#pragma once

#include "instructions/planned_attention/sm90/tile.cuh"
#include "vm/device/sm90/boxes.h"

namespace serval::device::planned {

template <class Config, uint32_t kHeadDim>
class NarrowTile : public Tile<NarrowTile<Config, kHeadDim>, Config, kHeadDim, 4, kHeadDim / 16> {
  using Base = Tile<NarrowTile, Config, kHeadDim, 4, kHeadDim / 16>;
  friend Base;
  using typename Base::Stream;

 public:
  // The parity of the warpgroup's barrier is kept outside, because it outlives the tile.
  __device__ __forceinline__ NarrowTile(const PlannedAttention& op, const Group& group,
                                        uint32_t& together_parity)
      : Base(op, group),
        work_(memory_.narrow[warpgroup_]),
        operands_(memory_.narrow_operands[warpgroup_]),
        together_parity_(together_parity) {}

  // In kernels of single rows: runs the warpgroup's part of the record's n-th stream, some of its heads,
  // whose pages no other warpgroup reads.
  __device__ __forceinline__ void run_single(const Stream& stream, uint32_t n, uint32_t first_page) {
    stream_heads_ = Config::uniform(stream.heads);
    // The warpgroups take turns at streams of one head.
    const uint32_t tile = stream_heads_ > 1 ? warpgroup_ : (warpgroup_ + n) % kWarpgroups;
    const HeadShare mine(stream_heads_, tile);
    if (mine.count == 0) return;
    has_two_ = Config::uniform(mine.count) > 1;
    go_to(first_page + mine.first);
    this->head_ = Config::uniform(stream.head) + mine.first;
    queries_ =
        Config::uniform(ptx::shared_address(memory_.narrow_operands[tile].queries[n % Memory::kStreamSlots]));
    find_queries(mine, stream.tokens);
    multiply(stream, Config::uniform(stream.blocks));
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
  // Finds the lane's queries, in kernels of single rows.
  __device__ __forceinline__ void find_queries(const HeadShare& mine, uint32_t tokens) {
    const uint32_t first_head = memory_.heads.count;  // queries of the first head
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      is_second_[i] = tile_row(i) >= first_head;
      this->writes_[i] = mine.count * first_head > tile_row(i);
      this->visible_[i] = this->writes_[i] ? tokens : kEverything;
    }
  }
  // The lane's token or channel, one of two, in a group of 64.
  __device__ __forceinline__ uint32_t row(uint32_t half) const {
    return warp_ * 16 + half * 8 + group_.lane / kQuadLanes;
  }

  // One head's products, issued between fence and commit.
  __device__ __forceinline__ void add_scores(float (&scores)[kScores], ptx::WgmmaOperand keys,
                                             ptx::WgmmaOperand queries) const {
#pragma unroll
    for (uint32_t c = 0; c < Memory::kParts * kPartSteps; ++c) {
      const uint32_t part = c / kPartSteps, next = c % kPartSteps * ptx::kWgmmaNextTerms;
      ptx::wgmma_bf16_shared(scores, keys + part * (kPartBytes / 16) + next,
                             queries + part * (Memory::kNarrowPartBytes / 16) + next, c != 0);
    }
  }
  __device__ __forceinline__ void add_output(float (&o)[kSums], ptx::WgmmaOperand values,
                                             ptx::WgmmaOperand weights, bool adds) const {
#pragma unroll
    for (uint32_t t = 0; t < kSteps; ++t) {
#pragma unroll
      for (uint32_t p = 0; p < Memory::kParts; ++p)
        ptx::wgmma_bf16_shared_transposed(reinterpret_cast<float(&)[4]>(o[4 * p]),
                                          values + p * (kPartBytes / 16) + t * ptx::kWgmmaNextTransposedTerms,
                                          weights + t * ptx::kWgmmaNextTerms, adds || t != 0);
    }
  }

  // --- pages: the next one, of the first head; the second head's page follows it

  __device__ __forceinline__ bool has_two() const {
    return Memory::kSingleRows && has_two_;
  }
  __device__ __forceinline__ uint32_t second_at() const {
    return at_ + 1 == Memory::kPages ? 0 : at_ + 1;
  }
  __device__ __forceinline__ void go_to(uint32_t page) {
    next_page_ = page;
    at_ = page % Memory::kPages;
    parity_ = page / Memory::kPages & 1;
  }
  // In other kernels, a block's values come after the keys of the next block.
  __device__ __forceinline__ void go_to_keys(uint32_t b) {
    if constexpr (!Memory::kSingleRows) go_to(this->first_page_ + (b == 0 ? 0 : 2 * b - 1));
  }
  __device__ __forceinline__ void go_to_values(uint32_t b, bool is_last) {
    if constexpr (!Memory::kSingleRows) go_to(this->first_page_ + 2 * b + (is_last ? 1 : 2));
  }
  __device__ __forceinline__ void wait_pages() {
    if constexpr (Memory::kSingleRows)
      wait_count_or_exit(&memory_.issued, next_page_ + (has_two() ? 2 : 1), issued_seen_, group_.exit);
    wait_phase_or_exit(&memory_.landed[at_], parity_, group_.exit);  // covers both heads' pages
  }
  __device__ __forceinline__ void free_pages() {
    __syncwarp();
    if (group_.lane < (has_two() ? 2 : 1))
      ptx::mbarrier_arrive(&memory_.free[group_.lane == 0 ? at_ : second_at()]);
    next_page_ += stream_heads_;
    at_ += stream_heads_;
    if (at_ < Memory::kPages) return;
    at_ -= Memory::kPages;
    parity_ ^= 1;
  }

  // --- products

  // Multiplies one head's page or two heads' pages: add(sums, operand) for each, then meanwhile() before the
  // wait. Branches enclose whole groups of products: ptxas serialises products with branches between them.
  template <uint32_t kCount, class Operand, class Add, class Meanwhile>
  __device__ __forceinline__ void multiply_pages(float (&first)[kCount], float (&second)[kCount],
                                                 Operand&& operand, Add&& add, Meanwhile&& meanwhile) {
    const ptx::WgmmaOperand of_first = operand(this->address_at(at_));
    if (has_two()) {
      const ptx::WgmmaOperand of_second = operand(this->address_at(second_at()));
      ptx::wgmma_fence();
      add(first, of_first);
      add(second, of_second);
      ptx::wgmma_commit();
      meanwhile();
      ptx::wgmma_wait<0>();
    } else {
      ptx::wgmma_fence();
      add(first, of_first);
      ptx::wgmma_commit();
      meanwhile();
      ptx::wgmma_wait<0>();
    }
    free_pages();
  }
  __device__ __forceinline__ void multiply_keys(float (&scores)[kScores], float (&second)[kScores]) {
    wait_pages();
    const ptx::WgmmaOperand queries =
        ptx::wgmma_operand(Memory::kSingleRows ? queries_ : ptx::shared_address(operands_.queries[0][0]));
    multiply_pages(
        scores, second, [](uint32_t keys) { return ptx::wgmma_operand(keys); },
        [&](float(&to)[kScores], ptx::WgmmaOperand keys) { add_scores(to, keys, queries); }, [] {});
    take_own(scores, second);
  }
  template <class Meanwhile>
  __device__ __forceinline__ void multiply_values(bool adds, float (&o)[kSums], float (&second)[kSums],
                                                  Meanwhile&& meanwhile) {
    const ptx::WgmmaOperand weights = ptx::wgmma_operand(ptx::shared_address(operands_.weights));
    multiply_pages(
        o, second, [](uint32_t values) { return ptx::wgmma_operand_transposed(values, kPartBytes); },
        [&](float(&to)[kSums], ptx::WgmmaOperand values) { add_output(to, values, weights, adds); },
        meanwhile);
  }
  // Selects for each of the lane's queries the products of its own head.
  template <uint32_t kCount>
  __device__ __forceinline__ void take_own(float (&values)[kCount], const float (&second)[kCount]) const {
    if (!has_two()) return;
#pragma unroll
    for (uint32_t n = 0; n < kCount; ++n) values[n] = is_second_[query_of(n)] ? second[n] : values[n];
  }
  // Clears what follows the last token of the last block's values, which have landed; `tokens`: the
  // sequence's tokens in that block. In kernels of single rows, boxes after the last used one were loaded as
  // zeros.
  __device__ __forceinline__ void clear_pages(uint32_t tokens) {
    if constexpr (Memory::kSingleRows) {
      if (tokens % kKvBoxTokens == 0) return;
      clear_box(this->address_at(at_), tokens);
      if (has_two()) clear_box(this->address_at(second_at()), tokens);
      ptx::fence_proxy_async_shared();
    } else {
      this->clear_values(this->address_at(at_), tokens);
    }
    this->sync_warpgroup();
  }
  __device__ __forceinline__ void clear_box(uint32_t values, uint32_t tokens) const {
    const uint32_t row = tokens + this->warpgroup_thread() / 8, piece = this->warpgroup_thread() % 8;
    if (row >= (tokens | (kKvBoxTokens - 1)) + 1) return;
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p)
      ptx::shared_store(values + p * kPartBytes + row * kRowBytes + piece * 16, uint4{0, 0, 0, 0});
  }

  __device__ __forceinline__ void multiply(const Stream& stream, uint32_t blocks) {
    // Products count as reading their accumulators.
    float o[kSums] = {}, second_o[kSums] = {}, scores[kScores] = {}, second_scores[kScores] = {};
    typename Base::LeafMemory memory;
    typename Base::Leaves leaves(memory);
    const uint32_t first_block = Config::uniform(stream.first_block);
    if constexpr (!Memory::kSingleRows)
      this->template share_queries<kNarrowRows, Memory::kParts>(stream, operands_.queries[0][0]);
    const uint32_t tokens = Config::uniform(stream.tokens % kKvBlockTokens);
    this->begin_leaf(leaves);
#pragma unroll 1
    for (uint32_t b = 0;; ++b) {
      const uint32_t block = first_block + b;
      const bool is_last = b + 1 == blocks;
      go_to_keys(b);
      multiply_keys(scores, second_scores);
      PerQuery shrink;
      softmax(scores, block * kKvBlockTokens, shrink);
      if constexpr (!Memory::kSingleRows)
        add_weights(shrink);  // next to products, ptxas would serialise them (C7520)
#pragma unroll
      for (uint32_t n = 0; n < kSums; ++n) {
        o[n] *= shrink[query_of(n)];
        second_o[n] *= shrink[query_of(n)];
      }
      go_to_values(b, is_last);
      wait_pages();
      if (is_last && tokens != 0) clear_pages(tokens);
      multiply_values(block % kLeafBlocks != 0, o, second_o, [&] {
        if constexpr (Memory::kSingleRows) add_weights(shrink);
      });
      if (is_last) break;
      if ((block + 1) % kLeafBlocks == 0) end(stream, block, o, second_o, leaves);
    }
    const uint32_t last = first_block + blocks - 1;
    if (last < kLeafBlocks && stream.item.first_place == kNoPlace) {  // usual: nothing to merge
      take_own(o, second_o);
      PerQuery total = {this->total_[0], 0};
      add_lanes(total);
      return write_output(stream, o, total);
    }
    end(stream, last, o, second_o, leaves);
    if (first_block == 0) this->finish(stream, last < kLeafBlocks, o, leaves);
  }
  // `block`: the last one of its leaf.
  __device__ __forceinline__ void end(const Stream& stream, uint32_t block, float (&o)[kSums],
                                      const float (&second)[kSums], typename Base::Leaves& leaves) {
    take_own(o, second);
    this->begin_leaf(leaves);
    this->end_leaf(stream, block / kLeafBlocks, o, leaves);
  }

  // Turns scores into weights and stores them in shared memory: rounded for the products, and unrounded for
  // the totals.
  __device__ __forceinline__ void softmax(float (&scores)[kScores], uint32_t first, PerQuery& shrink) {
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
  // Maxima over the warpgroup's tokens.
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
    // As bf16: a row for each query; first this warp's lower 8 tokens, then its upper 8, swizzled.
    const uint32_t query = group_.lane % 8, piece = warp_ * 2 + group_.lane / 8 % 2;
    ptx::store_matrices_transposed(
        ptx::shared_address(operands_.weights) + query * kRowBytes + (piece ^ query) * 16,
        ptx::pack_bf16(weights[0], weights[1]), ptx::pack_bf16(weights[2], weights[3]));
    ptx::fence_proxy_async_shared();
    this->sync_warpgroup();
  }
  // Each warp adds all weights in the order of a full tile: lane l those of query l / 4, and in each 8 tokens
  // those of 2 (l mod 4) and the next.
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
  // The value of query lane / 4, from a lane that has that query as one of its two.
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

  // Writes the lane's sums of query i. Returns true in the lane that also writes the query's scalars.
  __device__ __forceinline__ bool write_sums(float* to, uint32_t i, const float (&sums)[kSums]) const {
#pragma unroll
    for (uint32_t n = 0; n < kSums / 2; ++n)
      ptx::store_relaxed(to + n / 2 * kPartChannels + row(n % 2), sums[2 * n + i]);
    return warp_ == 0 && group_.lane < kQuadLanes;
  }
  // Lanes of neighbouring channels exchange halves, so that each has a channel pair of one query: of the
  // first query in even rows, of the second in odd ones. The next word holds the pair that is 8 channels
  // further.
  __device__ __forceinline__ void write_output(const Stream& stream, const float (&sums)[kSums],
                                               const PerQuery& total) const {
    const uint32_t i = group_.lane / kQuadLanes % 2;
    const float share = 1.0F / (i == 0 ? total[0] : total[1]);
#pragma unroll
    for (uint32_t p = 0; p < Memory::kParts; ++p) {
      uint32_t words[2];
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const float even = sums[4 * p + 2 * half], odd = sums[4 * p + 2 * half + 1];
        const float own = __fmul_rn(i == 0 ? even : odd, share);
        const float other = __fmul_rn(__shfl_xor_sync(kAllLanes, i == 0 ? odd : even, kQuadLanes), share);
        words[half] = i == 0 ? this->pack_output(own, other) : this->pack_output(other, own);
      }
      if (!(i == 0 ? this->writes_[0] : this->writes_[1])) continue;
      const uint32_t channel = p * kPartChannels + row(0);
      std::byte* piece = this->output_piece(stream, i, channel / 32 * 32, channel % 8 / 2);
      *reinterpret_cast<uint2*>(piece + channel % 32 / 8 * sizeof(uint32_t)) = {words[0], words[1]};
    }
  }

  NarrowWork& work_;
  typename Memory::NarrowOperands& operands_;
  uint32_t& together_parity_;
  // In kernels of single rows: the stream's heads, and the warpgroup's part of them.
  uint32_t stream_heads_ = 1;
  bool has_two_ = false;
  bool is_second_[2] = {};                        // by query of the lane: it belongs to the second head
  uint32_t queries_ = 0;                          // their address in shared memory
  uint32_t next_page_ = 0, at_ = 0, parity_ = 0;  // the next page, its buffer and its parity
  uint32_t issued_seen_ = 0;                      // last value seen of Memory::issued
};

}  // namespace serval::device::planned
