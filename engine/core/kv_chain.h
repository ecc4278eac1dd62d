// The KV blocks of one sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/kv_block_pool.h"

namespace serval {

// Holds blocks of a pool and releases them on destruction; the pool must outlive it. `tokens` are all tokens
// of the sequence, prompt first.
class KvChain {
 public:
  KvChain(KvBlockPool& pool, uint64_t domain) : pool_(pool), domain_(domain) {}
  KvChain(const KvChain&) = delete;
  KvChain& operator=(const KvChain&) = delete;
  ~KvChain() { release(); }

  // Replaces blocks that hold nothing yet by published blocks, and by a tail after them, that hold the first
  // `limit` tokens as far as possible. All computed tokens must be published. Returns how many tokens its
  // blocks hold now.
  uint32_t reuse(std::span<const int32_t> tokens, uint32_t limit);
  // Holds at least `blocks`. Returns false, and takes none, if the pool has too few.
  bool grow_to(uint32_t blocks);
  // The first `computed` tokens are in the cache: publishes the blocks that they fill. Some may be replaced
  // by blocks with the same content. A launch in flight may still read the released ones, because no block is
  // written before the launch has ended.
  void publish(std::span<const int32_t> tokens, uint32_t computed);
  void release();
  // Releases all blocks, and leaves the computed part after the published blocks as a tail for another
  // sequence.
  void leave(std::span<const int32_t> tokens, uint32_t computed);

  std::span<const int32_t> blocks() const { return blocks_; }
  uint32_t size() const { return static_cast<uint32_t>(blocks_.size()); }
  // Index of the first block that has changed since the last call; size() if none has.
  uint32_t take_first_changed();

 private:
  KvLink link() const;
  uint32_t take_tail(std::span<const int32_t> tokens);
  void set(uint32_t index, int32_t block);

  KvBlockPool& pool_;
  const uint64_t domain_;
  std::vector<int32_t> blocks_;
  uint32_t published_ = 0;  // number of blocks_ that are published
  uint32_t first_changed_ = 0;
};

}  // namespace serval
