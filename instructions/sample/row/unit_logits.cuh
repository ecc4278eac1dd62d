// Summaries of a row's logits, written by `lm_head`: a largest logit and a sum for each unit of 8 tokens
// (instructions/common/unit_softmax.h), a quarter of the row's size.
//
// A thread processes every kGroupThreads-th unit.
#pragma once

#include <cstdint>

#include "instructions/common/unit_softmax.h"
#include "instructions/sample/rank/rank_key.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/memory.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device::sample {

// Units of a thread whose loads are in flight at the same time: all of them in vocabularies of up to 2^17
// tokens. The data has just been written, and the next pass's weights are being loaded, so an access to L2
// takes a microsecond.
inline constexpr uint32_t kUnitsAtOnce = 64;
inline constexpr uint32_t kReachingAtOnce = 32;  // one bit each

class UnitLogits {
 public:
  // `unit_softmax`: [rows, units of the vocabulary].
  __device__ __forceinline__ UnitLogits(UnitSoftmax* unit_softmax, uint32_t row, uint32_t vocab)
      : count_(static_cast<uint32_t>(vocabulary_units(vocab))),
        units_(reinterpret_cast<float2*>(unit_softmax) + size_t{row} * count_) {}

  __device__ __forceinline__ uint32_t count() const { return count_; }

  // Bit i: unit first + i * kGroupThreads has a logit that is at least `least`.
  __device__ __forceinline__ uint32_t reaching(uint32_t first, float least) const {
    float largest[kReachingAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kReachingAtOnce; ++i) {
      largest[i] = ptx::load_relaxed(&units_[min(first + i * kGroupThreads, count_ - 1)].x);
    }
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < kReachingAtOnce; ++i) {
      const bool reaches = first + i * kGroupThreads < count_ && largest[i] >= least;
      bits |= reaches ? 1U << i : 0;
    }
    return bits;
  }

  __device__ __forceinline__ void set_largest(uint32_t unit, float largest) const {
    ptx::store_relaxed(&units_[unit].x, largest);
  }
  // Largest logit of this thread's units.
  __device__ __forceinline__ float largest_of(uint32_t thread) const {
    float largest = kMinusInfinity;
#pragma unroll 8
    for (uint32_t unit = thread; unit < count_; unit += kGroupThreads)
      largest = fmaxf(largest, ptx::load_relaxed(&units_[unit].x));
    return largest;
  }

  // Calls fn(unit, its UnitSoftmax) for all units of this thread, in order, and with -infinity and 0 for some
  // units beyond the row's last.
  template <class Fn>
  __device__ __forceinline__ void for_each(uint32_t thread, Fn&& fn) const {
#pragma unroll 1
    for (uint32_t first = thread; first < count_; first += kUnitsAtOnce * kGroupThreads) {
      float2 batch[kUnitsAtOnce];
      load(first, batch);
      visit(first, batch, fn);
    }
  }

 private:
  __device__ __forceinline__ void load(uint32_t first, float2 (&batch)[kUnitsAtOnce]) const {
#pragma unroll
    for (uint32_t i = 0; i < kUnitsAtOnce; ++i) {
      const uint32_t unit = first + i * kGroupThreads;
      batch[i] = {kMinusInfinity, 0};
      if (unit < count_) batch[i] = ptx::load_relaxed(units_ + unit);
    }
  }
  template <class Fn>
  static __device__ __forceinline__ void visit(uint32_t first, const float2 (&batch)[kUnitsAtOnce], Fn& fn) {
#pragma unroll
    for (uint32_t i = 0; i < kUnitsAtOnce; ++i) {
      fn(first + i * kGroupThreads, UnitSoftmax{batch[i].x, batch[i].y});
    }
  }

  uint32_t count_;
  float2* units_;
};

}  // namespace serval::device::sample
