// Reads the whole quads of a row as fast as the L2 cache delivers them.
//
// A thread takes blocks of 16 quads, neighbouring threads neighbouring quads. ptxas has one scoreboard for
// all loads that are under way when a loop turns round: waiting for one of them is waiting for all. So a
// block's loads are issued in the turn that uses them, but for a first part, which covers the latency of the
// others and is loaded again as soon as it is used up.
#pragma once

#include <cstdint>

#include "instructions/sample/logits_row.cuh"
#include "instructions/sample/order.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kBlockQuads = 16;
inline constexpr uint32_t kFirstPart = 6, kSecondPart = 5, kThirdPart = 5;
static_assert(kFirstPart + kSecondPart + kThirdPart == kBlockQuads);

template <uint32_t kQuads>
struct Part {
  LogitQuad quads[kQuads];

  // Every kGroupThreads-th quad from `first` on.
  static __device__ __forceinline__ Part load(const LogitsRow& row, uint32_t first) {
    Part part;
#pragma unroll
    for (uint32_t i = 0; i < kQuads; ++i) part.quads[i] = row.quad(first + i * kGroupThreads);
    return part;
  }
  // The same, minus infinity where the row has no whole quad.
  static __device__ __forceinline__ Part load_whole(const LogitsRow& row, uint32_t first) {
    Part part;
#pragma unroll
    for (uint32_t i = 0; i < kQuads; ++i) {
      part.quads[i] = {kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
      const uint32_t q = first + i * kGroupThreads;
      if (q < row.end_whole()) part.quads[i] = row.quad(q);
    }
    return part;
  }
  // `begin`: which quad of the block the part begins with.
  template <class Visitor>
  __device__ __forceinline__ void visit(Visitor& visitor, uint32_t begin) const {
#pragma unroll
    for (uint32_t i = 0; i < kQuads; ++i) visitor.add(begin + i, quads[i]);
  }
};

// For each of this thread's blocks, in no certain order: visitor.add(i, quad) for i in [0, kBlockQuads), then
// visitor.end_block(q), where q + i * kGroupThreads is the row's index of quad i. Of one block, the quads
// from row.end_whole() on are minus infinity.
template <class Visitor>
__device__ __forceinline__ void stream(const LogitsRow& row, uint32_t thread, Visitor& visitor) {
  constexpr uint32_t kGroupQuads = kGroupThreads * kBlockQuads;
  constexpr uint32_t kSecond = kFirstPart * kGroupThreads;
  constexpr uint32_t kThird = kSecond + kSecondPart * kGroupThreads;
  const uint32_t blocks = (row.end_whole() - row.first_whole()) / kGroupQuads;
  uint32_t q = row.first_whole() + thread;
  const uint32_t rest = q + blocks * kGroupQuads;
  // The rest comes first, while nothing else could be done anyway.
  const auto rest_part = Part<kBlockQuads>::load_whole(row, rest);
  auto first = Part<kFirstPart>::load_whole(row, q);
  rest_part.visit(visitor, 0);
  visitor.end_block(rest);
#pragma unroll 1
  for (; q < rest; q += kGroupQuads) {
    const auto second = Part<kSecondPart>::load(row, q + kSecond);
    const auto third = Part<kThirdPart>::load(row, q + kThird);
    first.visit(visitor, 0);
    const uint32_t next = q + kGroupQuads < rest ? q + kGroupQuads : q;
    first = Part<kFirstPart>::load(row, next);
    second.visit(visitor, kFirstPart);
    third.visit(visitor, kFirstPart + kSecondPart);
    visitor.end_block(q);
  }
}

}  // namespace serval::device::sample
