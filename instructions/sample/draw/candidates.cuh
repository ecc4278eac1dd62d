// The candidates of a row in order: finds the one at which the cumulative weight reaches a given value.
//
// The head, which is the first few dozen or hundred candidates, is kept sorted in shared memory. Later
// candidates are found in the row itself, by a radix search over rank keys, which takes several sweeps.
#pragma once

#include <cstdint>

#include "instructions/sample/draw/collectives.cuh"
#include "instructions/sample/draw/scratch.cuh"
#include "instructions/sample/draw/token_list.cuh"
#include "instructions/sample/rank/histogram.cuh"
#include "instructions/sample/rank/rank_key.cuh"
#include "instructions/sample/rank/sort.cuh"
#include "instructions/sample/rank/weight.cuh"
#include "instructions/sample/row/buffered_quads.cuh"
#include "instructions/sample/row/logits_row.cuh"
#include "instructions/sample/row/unit_logits.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

// All threads of the group call each function together and get the same result.
class Candidates {
 public:
  __device__ __forceinline__ Candidates(const Group& group, Scratch& scratch, const LogitsRow& row,
                                        const UnitLogits& units)
      : group_(group), scratch_(scratch), row_(row), units_(units), head_size_(0) {}

  // Finds the head of the current row: at least `wanted` candidates, if that many are found easily.
  // `thread_largest`: the largest logit among the thread's own.
  __device__ __forceinline__ void find(float thread_largest, uint32_t wanted) {
    const bool all = row_.vocab() <= kSortedRunCapacity;
    const RankKey last = all ? kLastRank : reached_by(thread_largest, min(wanted, kMaxRank));
    head_size_ = find_head({kFirstRank, last});
  }

  // has(): the candidate of this rank (1: the first) is in the head. ranked(): that candidate.
  __device__ __forceinline__ bool has(uint32_t rank) const { return rank <= head_size_; }
  __device__ __forceinline__ RankKey ranked(uint32_t rank) const { return scratch_.head[rank - 1]; }

  // The first kept candidate at which the cumulative weight of kept candidates exceeds target(total weight),
  // or target(0) if the target does not depend on the total.
  template <class Target>
  __device__ __forceinline__ RankKey at(const Kept& kept, const Weight& weight, bool needs_total,
                                        Target&& target) const {
    const RankKey* head = scratch_.head;
    const bool head_has_all = has_all(kept);
    const uint64_t total = needs_total && !head_has_all ? row_total(kept, weight) : 0;
    const Found found = first_beyond(
        group_, scratch_, head_size_, [&](uint32_t i) { return kept.weight_of(weight, head[i]); },
        [&](uint64_t head_total) { return target(head_has_all ? head_total : total); });
    return found.index < head_size_ ? head[found.index] : search(kept, weight, found.target);
  }

 private:
  // Limit of `rank` in reached_by(). The threads' largest logits belong to different tokens, so at least
  // `rank` tokens reach the largest logit of this rank, and not many more, because neighbouring units belong
  // to different threads. Their number grows with the logarithm of 1 / (threads - rank).
  static constexpr uint32_t kMaxRank = 192;

  // A rank key that at least `rank` tokens reach. The last bits of the compared keys hold the thread, so that
  // no two keys are equal.
  __device__ __forceinline__ RankKey reached_by(float thread_largest, uint32_t rank) const {
    constexpr uint32_t kThreadMask = kGroupThreads - 1, kChains = 4;
    const uint32_t key = (key_of(thread_largest) & ~kThreadMask) | group_.thread;
    scratch_.thread_keys[group_.thread] = key;
    group_.sync();
    uint32_t ahead[kChains] = {};
#pragma unroll 8
    for (uint32_t i = 0; i < kGroupThreads; i += kChains) {
#pragma unroll
      for (uint32_t j = 0; j < kChains; ++j) ahead[j] += scratch_.thread_keys[i + j] > key ? 1 : 0;
    }
    if ((ahead[0] + ahead[1]) + (ahead[2] + ahead[3]) + 1 == rank) scratch_.ranked_key = key & ~kThreadMask;
    group_.sync();
    return max(RankKey{scratch_.ranked_key} << kTokenBits, kLastRank);
  }

  // Sorts the candidates of the range into the head. Returns their number, or 0 if there are too many.
  __device__ __forceinline__ uint32_t find_head(RankRange range) const {
    TokenList list(group_, scratch_);
    if (!list_reaching(group_, scratch_, row_, units_, logit_of(range.last), list)) return 0;
    const uint32_t size = list.to_ranks(row_, range);
    if (size > kSortedRunCapacity) return 0;  // many equal ones
    sort(group_, scratch_.unsorted, size, scratch_.head);
    return size;
  }

  // True if no kept candidate comes after the head.
  __device__ __forceinline__ bool has_all(const Kept& kept) const {
    if (head_size_ == row_.vocab()) return true;
    if (head_size_ == 0) return false;
    const RankKey last = scratch_.head[head_size_ - 1];
    const bool ends_there = kept.last_logit == logit_of(last) && kept.last_token == token_of(last);
    return ends_there || !kept.contains(token_of(last), logit_of(last));
  }

  __device__ __forceinline__ uint64_t row_total(const Kept& kept, const Weight& weight) const {
    uint64_t own = 0;
    for_each_quad(row_, group_.thread, scratch_.buffered, [&](uint32_t token, const LogitQuad& quad) {
#pragma unroll
      for (uint32_t i = 0; i < kQuadLogits; ++i) {
        const uint64_t w = kept.weight_of(weight, token + i, clean(quad.logit[i]));
        own += token + i < row_.vocab() ? w : 0;
      }
    });
    return sum_all(group_, scratch_, own);
  }

  // at() for candidates after the head: sums the weights of the row's candidates in bins of rank keys,
  // continues in the bin that contains the target, and ends when that bin's candidates fit into shared
  // memory.
  __device__ __forceinline__ RankKey search(const Kept& kept, const Weight& weight, uint64_t target) const {
    RankRange range = {kFirstRank, kLastRank};
    for (uint32_t range_bits = kRankBits;;) {
      const uint32_t bin_bits = range_bits > kBinBits ? range_bits - kBinBits : 0;
      fill_bins(kept, weight, range, bin_bits);
      const Found bin = first_beyond(
          group_, scratch_, kBins, [&](uint32_t i) { return scratch_.histogram.sum(i); },
          [&](uint64_t) { return target; });
      target -= bin.before;
      range.first -= RankKey{bin.index} << bin_bits;
      if (bin_bits == 0) return range.first;
      range.last = max(range.first - ((RankKey{1} << bin_bits) - 1), kLastRank);
      const uint32_t size = find_window(range);
      if (size > 0) return at_window(kept, weight, target, size);
      range_bits = bin_bits;
    }
  }

  // Sorts the candidates of the range into the window. Returns their number, or 0 if there are too many.
  __device__ __forceinline__ uint32_t find_window(RankRange range) const {
    TokenList list(group_, scratch_);
    const float most = logit_of(range.first), least = logit_of(range.last);
    const auto add = [&](uint32_t token, const LogitQuad& quad) {
#pragma unroll
      for (uint32_t i = 0; i < kQuadLogits; ++i) {
        const float logit = clean(quad.logit[i]);
        if (logit >= least && !(logit > most) && token + i < row_.vocab()) list.add(token + i);
      }
    };
    for_each_quad(row_, group_.thread, scratch_.buffered, add, [&] { return list.overflows(); });
    const uint32_t size = list.to_ranks(row_, range);
    if (size > kSortedRunCapacity) return 0;
    sort(group_, scratch_.unsorted, size, scratch_.window);
    return size;
  }

  // at() among the `size` candidates in the window.
  __device__ __forceinline__ RankKey at_window(const Kept& kept, const Weight& weight, uint64_t target,
                                               uint32_t size) const {
    const RankKey* window = scratch_.window;
    const Found found = first_beyond(
        group_, scratch_, size, [&](uint32_t i) { return kept.weight_of(weight, window[i]); },
        [&](uint64_t) { return target; });
    return window[found.index];
  }

  // Bin i: weight of the range's kept candidates with rank keys first - (i << bin_bits) and the next
  // 2^bin_bits - 1 ones.
  __device__ __forceinline__ void fill_bins(const Kept& kept, const Weight& weight, RankRange range,
                                            uint32_t bin_bits) const {
    Histogram& histogram = scratch_.histogram;
    histogram.clear(group_.thread);
    group_.sync();
    const Binning binning = {kept, weight, range, bin_bits, row_.vocab()};
    const float most = logit_of(range.first), least = logit_of(range.last);
    for_each_quad(row_, group_.thread, scratch_.buffered, [&](uint32_t token, const LogitQuad& quad) {
      if (quad.largest() < least || quad.smallest() > most) return;
      WeightInBin w[kQuadLogits];
      uint32_t old[kQuadLogits];
#pragma unroll
      for (uint32_t i = 0; i < kQuadLogits; ++i) w[i] = binning(token + i, clean(quad.logit[i]));
#pragma unroll
      for (uint32_t i = 0; i < kQuadLogits; ++i) old[i] = histogram.add_low(w[i].bin, w[i].weight);
#pragma unroll
      for (uint32_t i = 0; i < kQuadLogits; ++i) histogram.add_high(w[i].bin, w[i].weight, old[i]);
    });
    group_.sync();
  }

  const Group& group_;
  Scratch& scratch_;
  const LogitsRow& row_;
  const UnitLogits& units_;
  uint32_t head_size_;
};

}  // namespace serval::device::sample
