// Places of a ring of buffers in shared memory, each with a barrier that counts its uses.
#pragma once

#include <cstdint>

namespace serval::tiles {

// Position of the `count`-th entry in a ring of buffers, for a loop over successive entries: advance() needs
// no division.
template <uint32_t kBuffers>
struct RingPlace {
  uint32_t at;
  uint32_t parity;  // of the phase in which entry `count` lands; the opposite parity: its buffer is free

  __device__ __forceinline__ explicit RingPlace(uint32_t count)
      : at(count % kBuffers), parity(count / kBuffers & 1) {}
  __device__ __forceinline__ void advance() {
    const bool wraps = at + 1 == kBuffers;
    at = wraps ? 0 : at + 1;
    parity ^= wraps ? 1 : 0;
  }
};

}  // namespace serval::tiles
