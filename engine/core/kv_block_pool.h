// Which block of the paged KV cache (vm/layout/kv_cache.h) is held by how many sequences, and which can be
// found again by its tokens.
//
// A sequence holds its blocks as a chain: block i has the tokens [i × kKvBlockTokens, (i + 1) ×
// kKvBlockTokens). What keys and values a block has depends on its tokens, on all tokens before it and on the
// arithmetic that computed them (the domain), and on nothing else. So a block that is full may be published,
// and another sequence that begins with the same tokens may hold it too. Blocks that are not full are never
// published: of a shared prompt each sequence computes the tail of less than a block itself, and no block is
// ever written while two hold it. But a sequence that ends may leave its tail, and one that begins with the
// same tokens may take it over, to hold it alone and to write behind them: the next turn of a conversation.
//
// Invariants, which tests/engine/kv_block_pool_test.cc checks against a plain map:
// - A block is in one of three states: free; held, by one sequence or more; or kept, which is held by none
// and
//   published or a tail. free() + kept() + held() = num_blocks().
// - allocate() gives a block that was not held, and fails only where all are held.
// - While a block is published its tokens, its parent and its domain stay as they were; reuse() gives a block
//   only if tokens, domain and the whole chain before it are equal to what was asked for. Hashes only find
//   candidates: a collision costs time.
// - A tail that is taken over was held by none, and what it has behind the common tokens does not count.
// - The parent of a published block and of a tail is published. So what is kept goes from the ends of the
//   chains, the least recently used first.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vm/layout/kv_cache.h"

namespace serval {

// What a block follows in its chain.
struct KvLink {
  static constexpr int32_t kRoot = -1;
  int32_t parent = kRoot;  // a published block, or kRoot for the first block of a sequence
  uint64_t domain = 0;     // blocks of different domains are never shared; the same along a chain
};

// One thread at a time. All functions take constant time, or one proportional to what they are given.
class KvBlockPool {
 public:
  // `hash_seed` decides which chains collide, and so nothing but time.
  explicit KvBlockPool(uint32_t num_blocks, uint64_t hash_seed = 0);

  // A block held once, with undefined contents. None where all blocks are held.
  std::optional<int32_t> allocate();
  // One hold less of each of a chain's blocks, or of the end of one. Published blocks that nothing holds any
  // more are kept, others are free. Blocks must be released from the end of their chain, as this does.
  void release(std::span<const int32_t> chain);

  // The published block with these kKvBlockTokens tokens behind `link`, held once more. link.parent must be
  // held by the caller.
  std::optional<int32_t> reuse(const KvLink& link, std::span<const int32_t> tokens);
  // A held block is full and computed: from now on reuse() finds it. Where another one with the same content
  // is published already, that one is held instead and `block` is given back. Returns the one that is held.
  // link.parent must be held by the caller.
  int32_t publish(int32_t block, const KvLink& link, std::span<const int32_t> tokens);

  // A held block that nothing else holds has the computed tokens, fewer than kKvBlockTokens, behind `link`,
  // whose parent the caller holds. It is not held any more, but kept for take_tail(), with up to kTailsKept
  // behind one link: of more, the one that was left first is free then.
  static constexpr uint32_t kTailsKept = 16;
  void leave_tail(int32_t block, const KvLink& link, std::span<const int32_t> tokens);
  struct Tail {
    int32_t block;
    uint32_t tokens;  // at its beginning that are those asked for; at least 1
  };
  // The tail behind `link` that has the most tokens in common with the beginning of `tokens`. Held, by the
  // caller alone. link.parent must be held by the caller.
  std::optional<Tail> take_tail(const KvLink& link, std::span<const int32_t> tokens);

  // Of the chain that begins like `tokens`: full blocks that are published, and those of them that are held.
  struct Match {
    uint32_t blocks = 0;
    uint32_t held = 0;
  };
  Match match(uint64_t domain, std::span<const int32_t> tokens) const;

  // Forgets what is kept.
  void drop_kept();

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t kept() const { return kept_; }
  uint32_t available() const { return free() + kept(); }  // that allocate() can give
  uint32_t held() const { return num_blocks() - available(); }
  bool is_shared(int32_t block) const { return at(block).holders > 1; }
  bool is_published(int32_t block) const { return at(block).published; }

 private:
  static constexpr int32_t kNone = -1;
  struct Block {
    uint32_t holders = 0;
    bool published = false;
    uint32_t tail_tokens = 0;  // > 0: a tail
    KvLink link;
    uint64_t hash = 0;                     // of the chain up to and with this block
    int32_t next_in_bucket = kNone;        // of published blocks and tails
    int32_t older = kNone, newer = kNone;  // of kept blocks
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
  bool is_tail_behind(const Block& block, const KvLink& link, uint64_t tail_hash) const;
  void drop_oldest_tail_of_many(const KvLink& link);
  void drop(int32_t block);
  void hold(int32_t block);
  void keep(int32_t block);
  void take_out_of_kept(int32_t block);
  void forget(int32_t block);

  const uint64_t hash_seed_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;   // [num_blocks][kKvBlockTokens], of published blocks
  std::vector<int32_t> buckets_;  // heads of lists, what came last first; as many as blocks, rounded up
  std::vector<int32_t> free_;     // a stack: what was used last is used first, so little memory is touched
  int32_t oldest_ = kNone, newest_ = kNone;  // of kept blocks, by last use
  uint32_t kept_ = 0;
};

}  // namespace serval
