// A sequence slot's sampling parameters.
#pragma once

#include <cstdint>

#include "vm/ptx/ptx.cuh"
#include "vm/state/slots.h"

namespace serval::device::sample {

struct Parameters {
  uint64_t seed;
  uint32_t sequence;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  uint32_t extras;  // SlotExtra

  // Number of candidates that may be drawn, if only top-k removes any.
  __device__ __forceinline__ uint32_t wanted() const {
    constexpr uint32_t kAll = INT32_MAX;
    if (temperature <= 0) return 1;
    return top_k > 0 ? static_cast<uint32_t>(top_k) : kAll;
  }

  // Other SMs write the slot.
  static __device__ __forceinline__ Parameters load(const SequenceSlot* slot) {
    const auto word = [](const auto* field) {
      return ptx::load_relaxed(reinterpret_cast<const uint32_t*>(field));
    };
    const auto* seed = reinterpret_cast<const uint32_t*>(&slot->seed);
    return {.seed = word(seed) | uint64_t{word(seed + 1)} << 32,
            .sequence = word(&slot->sequence),
            .temperature = ptx::load_relaxed(&slot->temperature),
            .top_k = static_cast<int32_t>(word(&slot->top_k)),
            .top_p = ptx::load_relaxed(&slot->top_p),
            .min_p = ptx::load_relaxed(&slot->min_p),
            .extras = word(&slot->extras)};
  }
};

}  // namespace serval::device::sample
