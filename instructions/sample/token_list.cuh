// Tokens that a pass over the row selects, and their places.
#pragma once

#include <cstdint>

#include "instructions/sample/logits_row.cuh"
#include "instructions/sample/order.cuh"
#include "instructions/sample/penalties.cuh"
#include "instructions/sample/scratch.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

// Of the whole group, in any order; kRunCapacity at most.
class TokenList {
 public:
  __device__ __forceinline__ TokenList(const Group& group, Scratch& scratch)
      : group_(group), scratch_(scratch) {
    if (group.thread == 0) scratch.token_count = scratch.place_count = 0;
    group.sync();
  }

  __device__ __forceinline__ void add(uint32_t token) {
    const uint32_t i = atomicAdd(&scratch_.token_count, 1U);
    if (i < kRunCapacity) scratch_.tokens[i] = token;
  }
  // True once more have been added than it holds.
  __device__ __forceinline__ bool overflows() const {
    return *static_cast<const volatile uint32_t*>(&scratch_.token_count) > kRunCapacity;
  }

  // Writes the places in `range` of the tokens and of all that are penalised, after the penalty, to
  // Scratch::unsorted. Returns how many they are; more than kRunCapacity if too many. For all threads.
  __device__ __forceinline__ uint32_t to_places(const LogitsRow& row, const Penalties& penalties,
                                                PlaceRange range) {
    group_.sync();
    const uint32_t tokens = scratch_.token_count;
    if (tokens > kRunCapacity) return tokens;
#pragma unroll 1
    for (uint32_t i = group_.thread; i < tokens; i += kGroupThreads) {
      const uint32_t token = scratch_.tokens[i];
      const float logit = clean(row.logit(token));
      if (!penalties.contains(token)) add_place(place_of(logit, token), range);
    }
    penalties.correct(group_.thread, [&](uint32_t token, float, float penalised) {
      add_place(place_of(penalised, token), range);
    });
    group_.sync();
    return scratch_.place_count;
  }

 private:
  __device__ __forceinline__ void add_place(Place place, PlaceRange range) {
    if (place < range.last || place > range.first) return;
    const uint32_t i = atomicAdd(&scratch_.place_count, 1U);
    if (i < kRunCapacity) scratch_.unsorted.places[i] = place;
  }

  const Group& group_;
  Scratch& scratch_;
};

// A visitor of stream() that lists the tokens in whole quads whose logits, as they came, are at least
// `least`.
class ReachingTokens {
 public:
  __device__ __forceinline__ ReachingTokens(const LogitsRow& row, float least, TokenList& list)
      : row_(row), least_(least), list_(list) {}

  __device__ __forceinline__ void add(uint32_t i, const LogitQuad& quad) {
#pragma unroll
    for (uint32_t j = 0; j < kQuadLogits; ++j) {
      const uint32_t bit = 1U << (i % kQuadsOfWord * kQuadLogits + j);
      if (clean(quad.logit[j]) >= least_) bits_[i / kQuadsOfWord] |= bit;
    }
  }
  __device__ __forceinline__ void end_block(uint32_t first_quad) {
#pragma unroll
    for (uint32_t word = 0; word < kWords; ++word) {
      const uint32_t q = first_quad + word * kQuadsOfWord * kGroupThreads;
#pragma unroll 1
      for (; bits_[word] != 0; bits_[word] &= bits_[word] - 1) {
        add_token(q, static_cast<uint32_t>(__ffs(static_cast<int>(bits_[word]))) - 1);
      }
    }
  }

 private:
  static constexpr uint32_t kQuadsOfWord = 32 / kQuadLogits;
  static constexpr uint32_t kWords = kBlockQuads / kQuadsOfWord;

  __device__ __forceinline__ void add_token(uint32_t first_quad, uint32_t bit) {
    const uint32_t q = first_quad + bit / kQuadLogits * kGroupThreads;
    if (q < row_.end_whole()) list_.add(row_.token(q) + bit % kQuadLogits);
  }

  const LogitsRow& row_;
  float least_;
  TokenList& list_;
  uint32_t bits_[kWords] = {};  // of this block's quads, in order
};

}  // namespace serval::device::sample
