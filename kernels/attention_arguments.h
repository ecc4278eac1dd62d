// Checks that both directions of kernels/attention.h share.
#pragma once

#include "kernels/arguments.h"
#include "kernels/attention.h"

namespace serval::kernels {

inline void check_attention(const char* kernel, const AttentionShape& s, float scale) {
  require(s.head_dim == 64 || s.head_dim == 128, kernel,
          "head_dim is " + std::to_string(s.head_dim) + "; it must be 64 or 128");
  require(s.batch > 0 && s.length > 0 && s.kv_heads > 0, kernel,
          "batch, length and kv_heads must be at least 1");
  require_multiple(s.heads, s.kv_heads, kernel, "heads");
  require(uint64_t{s.batch} * s.heads * s.length < uint64_t{1} << 31, kernel,
          "batch * heads * length must be less than 2^31");
  require(scale > 0, kernel, "scale must be positive");
}

}  // namespace serval::kernels
