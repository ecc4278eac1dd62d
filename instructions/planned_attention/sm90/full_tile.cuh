// The form of a tile for up to 64 rows, each a query head of a row of the pass:
//
//   scores[query, token]    = queries × keysᵀ              queries and keys in shared memory (usually)
//   output[query, channel] += weights × values             weights in registers, values transposed
//
// In each 8 tokens or channels, quad lane q holds 2q and 2q + 1, for two queries that are 8 rows apart.
#pragma once

#include "instructions/planned_attention/sm90/tile.cuh"

namespace serval::device::planned {

template <class Config, uint32_t kHeadDim>
class FullTile : public Tile<FullTile<Config, kHeadDim>, Config, kHeadDim, kKvBlockTokens / 2, kHeadDim / 2> {
  using Base = Tile<FullTile, Config, kHeadDim, kKvBlockTokens / 2, kHeadDim / 2>;
  friend Base;
  using typename Base::Stream;

 public:
  using Base::Base;

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
  static constexpr uint32_t kForm = 0;
  // Queries are in shared memory; where that is small, the last part of channels is in registers, 16 channels
  // a step.
  static constexpr uint32_t kSharedParts = Memory::kSharedParts;
  // If queries leave enough registers, sums are rescaled while the next scores are multiplied.
  static constexpr bool kShrinksLate = kSharedParts == Memory::kParts;
  using Queries = uint32_t[kPartSteps][4];
  using Weights = uint32_t[kSteps][4];

  __device__ __forceinline__ uint32_t& together_parity() { return together_parity_; }
  static constexpr uint32_t query_of(uint32_t n) { return n / 2 % 2; }
  __device__ __forceinline__ uint32_t tile_row(uint32_t i) const {
    return warp_ * 16 + group_.lane / kQuadLanes + 8 * i;
  }

  // Loads zeros where there is no query.
  __device__ __forceinline__ void load_queries(const Stream& stream, Queries& queries) {
    if constexpr (kSharedParts > 0)
      this->template share_queries<kTileRows, kSharedParts>(stream, memory_.queries[warpgroup_]);
    if constexpr (kSharedParts < Memory::kParts) hold_queries(stream, queries);
  }
  // Loads the last part of channels into registers.
  __device__ __forceinline__ void hold_queries(const Stream& stream, Queries& queries) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const auto* from = reinterpret_cast<const uint32_t*>(this->query_at(stream, tile_row(i)));
      const uint32_t first = (Memory::kParts - 1) * (kPartChannels / 2) + group_.lane % kQuadLanes;
#pragma unroll
      for (uint32_t c = 0; c < kPartSteps; ++c) {
        queries[c][i] = from != nullptr ? ptx::load_relaxed(from + first + c * 8) : 0;
        queries[c][i + 2] = from != nullptr ? ptx::load_relaxed(from + first + c * 8 + 4) : 0;
      }
    }
  }
  __device__ __forceinline__ void begin_scores(float (&scores)[kScores], const Queries& queries,
                                               ptx::WgmmaOperand q, ptx::WgmmaOperand k) const {
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t c = 0; c < Memory::kParts * kPartSteps; ++c) {
      const ptx::WgmmaOperand next =
          c / kPartSteps * (kPartBytes / 16) + c % kPartSteps * ptx::kWgmmaNextTerms;
      if (static_cast<int>(c / kPartSteps) < static_cast<int>(kSharedParts)) {
        ptx::wgmma_bf16_shared(scores, q + next, k + next, c != 0);
      } else {
        ptx::wgmma_bf16<kKvBlockTokens>(scores, queries[c % kPartSteps], k + next, c != 0);
      }
    }
    ptx::wgmma_commit();
  }
  __device__ __forceinline__ void begin_output(float (&o)[kSums], const Weights& weights, ptx::WgmmaOperand v,
                                               bool adds) const {
    ptx::wgmma_fence();
#pragma unroll
    for (uint32_t t = 0; t < kSteps; ++t)
      ptx::wgmma_bf16_transposed<kHeadDim>(o, weights[t], v + t * ptx::kWgmmaNextTransposedTerms,
                                           adds || t != 0);
    ptx::wgmma_commit();
  }
  // Turns scores into weights, not yet rounded. `first`: the block's first token in the sequence.
  __device__ __forceinline__ void softmax(float (&scores)[kScores], uint32_t first, PerQuery& shrink) {
    if (first + kKvBlockTokens > this->least_visible_) {
#pragma unroll
      for (uint32_t n = 0; n < kScores; ++n) {
        const uint32_t token = first + n / 4 * 8 + group_.lane % kQuadLanes * 2 + n % 2;
        if (token >= this->visible_[n / 2 % 2]) scores[n] = -INFINITY;
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
      const float base = this->begin_weights(i, most, shrink);
      float total = 0;
#pragma unroll
      for (uint32_t b = 0; b < kScores / 4; ++b) {
#pragma unroll
        for (uint32_t j = 0; j < 2; ++j) {
          float& score = scores[4 * b + 2 * i + j];
          score = this->weight(score, base);
          total += score;
        }
      }
      this->total_[i] = __fmaf_rn(this->total_[i], shrink[i], total);
    }
  }
  // Rescales a query's output only if its largest score has grown: multiplying by 1 changes nothing.
  static __device__ __forceinline__ void shrink_output(float (&o)[kSums], const PerQuery& shrink) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (!__any_sync(kAllLanes, shrink[i] != 1)) continue;
#pragma unroll
      for (uint32_t n = 0; n < kSums; ++n) {
        if (query_of(n) == i) o[n] *= shrink[i];
      }
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

  static __device__ __forceinline__ void add_lanes(PerQuery& total) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      total[i] += __shfl_xor_sync(kAllLanes, total[i], 1);
      total[i] += __shfl_xor_sync(kAllLanes, total[i], 2);
    }
  }

  // The pages that the next products read: keys of the next block, and values of the current one.
  struct Pages {
    Place keys, values;
    ptx::WgmmaOperand k, v;
    bool landed;  // both have landed, as far as this lane has seen
  };
  __device__ __forceinline__ Pages pages_after(const Place& page) const {
    Pages pages;
    pages.keys = page.template next<Memory::kPages>();
    pages.values = pages.keys.template next<Memory::kPages>();
    pages.k = ptx::wgmma_operand(this->address_at(pages.keys.at));
    pages.v = values_at(pages.values);
    pages.landed = this->has_landed(pages.keys);
    pages.landed &= this->has_landed(pages.values);
    return pages;
  }
  __device__ __forceinline__ ptx::WgmmaOperand values_at(const Place& page) const {
    return ptx::wgmma_operand_transposed(this->address_at(page.at), kPartBytes);
  }

  // A round of the loop begins when a block's weights are known and the previous block's values are still
  // being multiplied; the compiler moves nothing across rounds, so it does not wait for those products
  // earlier. The next round's pages are looked up after softmax: the compiler interleaves that with the
  // exponentials, of which a scheduler computes one warp's in eight cycles, so it costs nothing.
  __device__ __forceinline__ void multiply(const Stream& stream, uint32_t blocks) {
    float o[kSums] = {}, scores[kScores] = {};  // products count as reading their accumulators
    typename Base::LeafMemory memory;
    typename Base::Leaves leaves(memory);
    PerQuery shrink;
    const uint32_t first_block = Config::uniform(stream.first_block);
    Queries queries;
    load_queries(stream, queries);
    const ptx::WgmmaOperand q =
        ptx::wgmma_operand(Config::uniform(ptx::shared_address(memory_.queries[warpgroup_])));
    Place page = this->place_of(this->first_page_);
    this->wait_page(page);
    begin_scores(scores, queries, q, ptx::wgmma_operand(this->address_at(page.at)));
    ptx::wgmma_wait<0>();
    this->free_page(page);
    this->begin_leaf(leaves);
    softmax(scores, first_block * kKvBlockTokens, shrink);
    Pages next = pages_after(page);
#pragma unroll 1
    for (uint32_t b = 0;; ++b) {
      const uint32_t block = first_block + b;
      const bool begins = block % kLeafBlocks == 0;
      ptx::wgmma_wait<0>();
      if (b > 0) {
        this->free_page(page);
        if (begins) this->end_leaf(stream, block / kLeafBlocks - 1, o, leaves);
      }
      if (!kShrinksLate) shrink_output(o, shrink);
      Weights weights;  // written after the wait: ptxas assumes that products read them until then
      pack(weights, scores);
      if (b + 1 == blocks) {
        if (kShrinksLate) shrink_output(o, shrink);
        multiply_last(stream, next.keys, o, weights, begins);
        break;
      }
      const bool landed = __all_sync(kAllLanes, next.landed);
      if (!landed) this->wait_page(next.keys);
      begin_scores(scores, queries, q, next.k);
      if (kShrinksLate) shrink_output(o, shrink);
      if (!landed) this->wait_page(next.values);
      begin_output(o, weights, next.v, !begins);
      ptx::wgmma_wait<1>();
      this->free_page(next.keys);
      this->begin_leaf_if((block + 1) % kLeafBlocks == 0, leaves);
      softmax(scores, (block + 1) * kKvBlockTokens, shrink);
      page = next.values;
      next = pages_after(page);
    }
    const uint32_t last_leaf = (first_block + blocks - 1) / kLeafBlocks;
    this->begin_leaf(leaves);
    this->end_leaf(stream, last_leaf, o, leaves);
    if (first_block == 0) this->finish(stream, last_leaf == 0, o, leaves);
  }
  // The last block's values follow its keys.
  __device__ __forceinline__ void multiply_last(const Stream& stream, const Place& page, float (&o)[kSums],
                                                const Weights& weights, bool begins) {
    this->wait_page(page);
    if (stream.tokens % kKvBlockTokens != 0) {
      this->clear_values(this->address_at(page.at), stream.tokens % kKvBlockTokens);
      this->sync_warpgroup();
    }
    begin_output(o, weights, values_at(page), !begins);
    ptx::wgmma_wait<0>();
    this->free_page(page);
  }

  // Writes the lane's sums of query i. Returns true in the lane that also writes the query's scalars.
  __device__ __forceinline__ bool write_sums(float* to, uint32_t i, const float (&sums)[kSums]) const {
    const uint32_t part = group_.lane % kQuadLanes;
#pragma unroll
    for (uint32_t b = 0; b < kSums / 4; ++b)
      ptx::store_relaxed(reinterpret_cast<float2*>(to + b * 8 + part * 2),
                         float2{sums[4 * b + 2 * i], sums[4 * b + 2 * i + 1]});
    return part == 0;
  }
  // A lane has one piece of each 32 channels.
  __device__ __forceinline__ void write_output(const Stream& stream, const float (&sums)[kSums],
                                               const PerQuery& total) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (!this->writes_[i]) continue;
      const float share = 1.0F / total[i];
#pragma unroll
      for (uint32_t c = 0; c < kHeadDim / 32; ++c) {
        uint32_t words[4];
#pragma unroll
        for (uint32_t u = 0; u < 4; ++u) {
          const uint32_t n = 4 * (4 * c + u) + 2 * i;
          words[u] = this->pack_output(__fmul_rn(sums[n], share), __fmul_rn(sums[n + 1], share));
        }
        *reinterpret_cast<uint4*>(this->output_piece(stream, i, c * 32, group_.lane % kQuadLanes)) = {
            words[0], words[1], words[2], words[3]};
      }
    }
  }

  uint32_t together_parity_ = 0;
};

}  // namespace serval::device::planned
