// A row of logits in global memory, written by other SMs, as quads of 4 logits (16 bytes).
//
// Quads begin at multiples of 16 bytes, but rows of some vocabularies do not: the first and the last quad of
// a row may also contain logits of neighbouring rows.
#pragma once

#include <cmath>
#include <cstdint>

#include "instructions/sample/rank/rank_key.cuh"
#include "vm/device/group.cuh"
#include "vm/ptx/ptx.cuh"

namespace serval::device::sample {

inline constexpr uint32_t kQuadLogits = 4;

struct LogitQuad {
  float logit[kQuadLogits];

  __device__ __forceinline__ float largest() const {
    return fmaxf(fmaxf(clean(logit[0]), logit[1]), fmaxf(logit[2], logit[3]));
  }
  __device__ __forceinline__ float smallest() const {
    return fminf(fminf(clean(logit[0]), clean(logit[1])), fminf(clean(logit[2]), clean(logit[3])));
  }
};

class LogitsRow {
 public:
  // `logits`: [rows, vocab], 16-byte aligned; the number of rows is a multiple of 4, so no quad reaches
  // beyond the tensor.
  __device__ __forceinline__ LogitsRow(float* logits, uint32_t row, uint32_t vocab)
      : vocab_(vocab),
        lead_(static_cast<uint32_t>(size_t{row} * vocab % kQuadLogits)),
        quads_(reinterpret_cast<float4*>(logits + size_t{row} * vocab - lead_)) {}

  __device__ __forceinline__ uint32_t vocab() const { return vocab_; }
  __device__ __forceinline__ float logit(uint32_t token) const {
    return ptx::load_relaxed(reinterpret_cast<const float*>(quads_) + lead_ + token);
  }
  __device__ __forceinline__ void set_logit(uint32_t token, float logit) const {
    ptx::store_relaxed(reinterpret_cast<float*>(quads_) + lead_ + token, logit);
  }

  // Number of quads that contain a logit of the row.
  __device__ __forceinline__ uint32_t quads() const {
    return (lead_ + vocab_ + kQuadLogits - 1) / kQuadLogits;
  }
  // Logits outside the row, in its first and last quad, are arbitrary. Several loads may be in flight.
  __device__ __forceinline__ LogitQuad quad(uint32_t q) const {
    const float4 v = ptx::load_relaxed(quads_ + q);
    return {v.x, v.y, v.z, v.w};
  }
  // The token of a quad's first logit; wraps if it lies before the row.
  __device__ __forceinline__ uint32_t token(uint32_t q) const { return q * kQuadLogits - lead_; }

 private:
  uint32_t vocab_;
  uint32_t lead_;  // logits of the first quad that belong to the previous row
  float4* quads_;
};

}  // namespace serval::device::sample
