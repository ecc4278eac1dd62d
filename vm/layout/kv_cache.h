// The paged KV cache: blocks of 64 tokens. In each layer, a block and KV head has one contiguous region for K
// and one for V.
#pragma once

#include <cstdint>

namespace serval {

inline constexpr uint32_t kKvBlockTokens = 64;
// Blocks of an attention leaf, which one instance sums before the merge. It fixes the order of sums and so
// belongs to the model's numerics; it never depends on the machine.
inline constexpr uint32_t kLeafBlocks = 4;
inline constexpr uint32_t kLeafTokens = kKvBlockTokens * kLeafBlocks;

// Element offset of (block, head, token in block, channel 0) in a K or V cache tensor.
constexpr uint64_t kv_offset(uint64_t block, uint32_t head, uint32_t token, uint32_t kv_heads,
                             uint32_t head_dim) {
  return ((block * kv_heads + head) * kKvBlockTokens + token) * head_dim;
}

constexpr uint32_t blocks_for_tokens(uint32_t tokens) {
  return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}
constexpr uint32_t leaves_for_tokens(uint32_t tokens) {
  return (tokens + kLeafTokens - 1) / kLeafTokens;
}

}  // namespace serval
