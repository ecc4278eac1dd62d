// Reference counts of the blocks of the paged KV cache (vm/layout/kv_cache.h), and the index that finds
// blocks by their tokens.
//
// A sequence holds its blocks as a chain: block i has the tokens [i × kKvBlockTokens, (i + 1) ×
// kKvBlockTokens). The keys and values in a block depend only on its tokens, on all tokens before it and on
// the arithmetic that computed them (the domain). So a full block may be published, and another sequence that
// begins with the same tokens may hold it too. Partly filled blocks are never published: each sequence
// computes the last, partial block of a shared prompt itself, and no block is written while two sequences
// hold it. But a sequence that ends may leave its partial block (its tail). A sequence that begins with the
// same tokens may take the tail over as its only holder and append to it: the next turn of a conversation.
//
// Invariants, which tests/engine/kv_block_pool_test.cc checks against a plain map:
// - A block is free, held (by one or more sequences), or kept (by none; published or a tail). free() + kept()
// + held() = num_blocks().
// - allocate() returns a block that was not held, and fails only if all are held.
// - While a block is published, its tokens, parent and domain do not change. reuse() returns a block only if
// tokens, domain and the whole chain before it are equal to those requested. Hashes only select candidates: a
// collision costs time.
// - A tail that is taken over had no holder. Its entries after the common tokens are ignored.
// - The parent of a published block or of a tail is published. So kept blocks are evicted from the ends of
// the chains, the least recently used first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vm/layout/kv_cache.h"

namespace serval {

// A block's predecessor in its chain.
struct KvLink {
  static constexpr int32_t kRoot = -1;
  int32_t parent = kRoot;  // a published block, or kRoot for the first block of a sequence
  uint64_t domain = 0;     // blocks of different domains are never shared; constant along a chain
};

// For one thread at a time. Every function takes constant time, or time proportional to its arguments.
class KvBlockPool {
 public:
  // `hash_seed` decides which chains collide; it affects only time.
  explicit KvBlockPool(uint32_t num_blocks, uint64_t hash_seed = 0);

  // Returns a block with one holder and undefined contents, or none if all are held.
  std::optional<int32_t> allocate();
  // Removes one hold from each of these blocks: a whole chain or its end. Published blocks without a holder
  // are kept, others become free. A chain must be released from its end, as this function does.
  void release(std::span<const int32_t> chain);

  // Returns the published block that follows `link` with these kKvBlockTokens tokens, and adds a hold. The
  // caller must hold link.parent.
  std::optional<int32_t> reuse(const KvLink& link, std::span<const int32_t> tokens);
  // Publishes a held block that is full and computed: reuse() finds it from now on. If a block with the same
  // content is already published, holds that one instead and releases `block`. Returns the block that is
  // held. The caller must hold link.parent.
  int32_t publish(int32_t block, const KvLink& link, std::span<const int32_t> tokens);

  // Turns a block that only the caller holds into a kept tail of `link`, with its computed tokens, fewer than
  // kKvBlockTokens. The caller must hold link.parent and no longer holds the block. A link keeps up to
  // kTailsKept tails; beyond that the oldest becomes free.
  static constexpr uint32_t kTailsKept = 16;
  void leave_tail(int32_t block, const KvLink& link, std::span<const int32_t> tokens);
  struct Tail {
    int32_t block;
    uint32_t tokens;  // length of the common prefix; at least 1
  };
  // Returns the tail of `link` that has the longest common prefix with `tokens`; the caller is its only
  // holder. The caller must hold link.parent.
  std::optional<Tail> take_tail(const KvLink& link, std::span<const int32_t> tokens);

  // Published full blocks of the chain that begins like `tokens`, and how many of them are held.
  struct Match {
    uint32_t blocks = 0;
    uint32_t held = 0;
  };
  Match match(uint64_t domain, std::span<const int32_t> tokens) const;

  // Frees all kept blocks.
  void drop_kept();

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t kept() const { return kept_; }
  uint32_t available() const { return free() + kept(); }  // blocks that allocate() can return
  uint32_t held() const { return num_blocks() - available(); }
  bool is_shared(int32_t block) const { return at(block).holders > 1; }
  bool is_published(int32_t block) const { return at(block).published; }

 private:
  static constexpr int32_t kNone = -1;
  struct Block {
    uint32_t holders = 0;
    bool published = false;
    uint32_t tail_tokens = 0;  // > 0: the block is a tail
    KvLink link;
    uint64_t hash = 0;                     // of the chain up to and including this block
    int32_t next_in_bucket = kNone;        // for published blocks and tails
    int32_t older = kNone, newer = kNone;  // for kept blocks
  };

  Block& at(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  const Block& at(int32_t block) const { return blocks_[static_cast<size_t>(block)]; }
  std::span<int32_t> tokens_of(int32_t block);
  std::span<const int32_t> tokens_of(int32_t block) const;
  uint64_t hash_before(const KvLink& link) const;
  uint64_t hash_of(const KvLink& link, std::span<const int32_t> tokens) const;
  uint64_t tail_hash_of(const KvLink& link) const;
  void put_into_bucket(int32_t block, const KvLink& link, uint64_t hash, std::span<const int32_t> tokens);
  int32_t& bucket_of(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  int32_t find(const KvLink& link, std::span<const int32_t> tokens, uint64_t hash) const;
  bool is_tail_after(const Block& block, const KvLink& link, uint64_t tail_hash) const;
  void drop_oldest_tail_of_many(const KvLink& link);
  void drop(int32_t block);
  void hold(int32_t block);
  void keep(int32_t block);
  void take_out_of_kept(int32_t block);
  void forget(int32_t block);

  const uint64_t hash_seed_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;              // [num_blocks][kKvBlockTokens], for published blocks
  std::vector<int32_t> buckets_;             // list heads, newest block first; num_blocks rounded up
  std::vector<int32_t> free_;                // a stack: reusing the latest block first touches little memory
  int32_t oldest_ = kNone, newest_ = kNone;  // ends of the list of kept blocks, by last use
  uint32_t kept_ = 0;
};

}  // namespace serval
