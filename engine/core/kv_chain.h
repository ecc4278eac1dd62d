// The KV blocks of one sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/kv_block_pool.h"

namespace serval {

// Holds blocks of a pool and gives them back when it is destroyed, which is before the pool is. `tokens` are
// all that the sequence has, prompt first.
class KvChain {
 public:
  KvChain(KvBlockPool& pool, uint64_t domain) : pool_(pool), domain_(domain) {}
  KvChain(const KvChain&) = delete;
  KvChain& operator=(const KvChain&) = delete;
  ~KvChain() { release(); }

  // Takes published blocks, and a tail behind them, for as many of the first `limit` tokens as there are, in
  // place of its own that hold nothing yet. All tokens that are computed must be published. Returns how many
  // tokens are in its blocks, now.
  uint32_t reuse(std::span<const int32_t> tokens, uint32_t limit);
  // Holds at least `blocks`. False, and no more than before, where the pool has not as many.
  bool grow_to(uint32_t blocks);
  // The first `computed` tokens are in the cache: publishes the blocks that they fill. Some may be exchanged
  // for ones with the same content; a launch in flight may read on from those that are given back, since none
  // is written before it has ended.
  void publish(std::span<const int32_t> tokens, uint32_t computed);
  void release();
  // The same, and leaves what behind the published blocks is computed, for another to take over.
  void leave(std::span<const int32_t> tokens, uint32_t computed);

  std::span<const int32_t> blocks() const { return blocks_; }
  uint32_t size() const { return static_cast<uint32_t>(blocks_.size()); }
  // Index of the first block that is not as it was at the last call; size() if all are.
  uint32_t take_first_changed();

 private:
  KvLink link() const;
  uint32_t take_tail(std::span<const int32_t> tokens);
  void set(uint32_t index, int32_t block);

  KvBlockPool& pool_;
  const uint64_t domain_;
  std::vector<int32_t> blocks_;
  uint32_t published_ = 0;  // of these
  uint32_t first_changed_ = 0;
};

}  // namespace serval
