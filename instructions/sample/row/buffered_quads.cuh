// Sweeps over a row with too much work per logit for an unrolled loop.
#pragma once

#include <cstdint>

#include "instructions/sample/row/logits_row.cuh"
#include "vm/device/group.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kBufferedQuads = 4;

// A few quads of each thread in shared memory. A thread reads only what it has written, so no synchronisation
// is needed.
using BufferedQuads = float4[kBufferedQuads][kGroupThreads];

// Calls fn(token, quad) for all quads of this thread: quad.logit[i] belongs to token + i, which may be beyond
// the vocabulary or, wrapping, before it. Quads go through shared memory, some at a time, so that the kernel
// contains fn once and registers are free for the next loads. Stops early once done() is true.
template <class Fn, class Done>
__device__ __forceinline__ void for_each_quad(const LogitsRow& row, uint32_t thread, BufferedQuads& buffered,
                                              Fn&& fn, Done&& done) {
  LogitQuad batch[kBufferedQuads];
  const auto load = [&](uint32_t first) {
#pragma unroll
    for (uint32_t i = 0; i < kBufferedQuads; ++i) {
      batch[i] = row.quad(min(first + i * kGroupThreads, row.quads() - 1));
    }
  };
  load(thread);
#pragma unroll 1
  for (uint32_t first = thread; first < row.quads() && !done(); first += kBufferedQuads * kGroupThreads) {
#pragma unroll
    for (uint32_t i = 0; i < kBufferedQuads; ++i) {
      const float* logit = batch[i].logit;
      buffered[i][thread] = {logit[0], logit[1], logit[2], logit[3]};
    }
    load(first + kBufferedQuads * kGroupThreads);
#pragma unroll 2
    for (uint32_t i = 0; i < kBufferedQuads; ++i) {
      const float4 v = buffered[i][thread];
      fn(row.token(first + i * kGroupThreads), LogitQuad{v.x, v.y, v.z, v.w});
    }
  }
}

template <class Fn>
__device__ __forceinline__ void for_each_quad(const LogitsRow& row, uint32_t thread, BufferedQuads& buffered,
                                              Fn&& fn) {
  for_each_quad(row, thread, buffered, fn, [] { return false; });
}

}  // namespace serval::device::sample
