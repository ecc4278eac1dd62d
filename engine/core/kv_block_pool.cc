#include "engine/core/kv_block_pool.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace serval {
namespace {

// The finaliser of MurmurHash3 (public domain): every output bit depends on every input bit.
constexpr uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio

}  // namespace

KvBlockPool::KvBlockPool(uint32_t num_blocks, uint64_t hash_seed)
    : hash_seed_(hash_seed),
      blocks_(num_blocks),
      tokens_(size_t{num_blocks} * kKvBlockTokens),
      buckets_(std::bit_ceil(size_t{num_blocks} + 1), kNone) {
  free_.reserve(num_blocks);
  for (uint32_t block = num_blocks; block > 0; --block) free_.push_back(static_cast<int32_t>(block - 1));
}

std::span<int32_t> KvBlockPool::tokens_of(int32_t block) {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * kKvBlockTokens, kKvBlockTokens);
}
std::span<const int32_t> KvBlockPool::tokens_of(int32_t block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * kKvBlockTokens, kKvBlockTokens);
}

uint64_t KvBlockPool::hash_before(const KvLink& link) const {
  if (link.parent != KvLink::kRoot) return at(link.parent).hash;
  return mixed(hash_seed_ ^ mixed(link.domain + kMultiplier));
}

uint64_t KvBlockPool::tail_hash_of(const KvLink& link) const {
  return mixed(hash_before(link) + kMultiplier);
}

uint64_t KvBlockPool::hash_of(const KvLink& link, std::span<const int32_t> tokens) const {
  uint64_t hash = hash_before(link);
  for (const int32_t token : tokens) hash = (hash ^ static_cast<uint32_t>(token)) * kMultiplier;
  return mixed(hash);
}

int32_t KvBlockPool::find(const KvLink& link, std::span<const int32_t> tokens, uint64_t hash) const {
  int32_t block = buckets_[hash & (buckets_.size() - 1)];
  for (; block != kNone; block = at(block).next_in_bucket) {
    const Block& candidate = at(block);
    if (candidate.hash == hash && candidate.published && candidate.link.parent == link.parent &&
        candidate.link.domain == link.domain && std::ranges::equal(tokens_of(block), tokens)) {
      break;
    }
  }
  return block;
}

std::optional<int32_t> KvBlockPool::allocate() {
  if (free_.empty()) {
    if (oldest_ == kNone) return std::nullopt;
    drop(oldest_);
  }
  const int32_t block = free_.back();
  free_.pop_back();
  at(block).holders = 1;
  return block;
}

void KvBlockPool::release(std::span<const int32_t> chain) {
  for (auto last = chain.rbegin(); last != chain.rend(); ++last) {
    const int32_t block = *last;
    assert(at(block).holders > 0);
    if (--at(block).holders > 0) continue;
    if (at(block).published) {
      keep(block);
    } else {
      free_.push_back(block);
    }
  }
}

std::optional<int32_t> KvBlockPool::reuse(const KvLink& link, std::span<const int32_t> tokens) {
  assert(tokens.size() == kKvBlockTokens);
  const int32_t block = find(link, tokens, hash_of(link, tokens));
  if (block == kNone) return std::nullopt;
  hold(block);
  return block;
}

int32_t KvBlockPool::publish(int32_t block, const KvLink& link, std::span<const int32_t> tokens) {
  assert(tokens.size() == kKvBlockTokens && at(block).holders == 1 && !at(block).published);
  assert(link.parent == KvLink::kRoot || (at(link.parent).published && at(link.parent).holders > 0));
  const uint64_t hash = hash_of(link, tokens);
  const int32_t same = find(link, tokens, hash);
  if (same != kNone) {
    hold(same);
    release({&block, 1});
    return same;
  }
  at(block).published = true;
  put_into_bucket(block, link, hash, tokens);
  return block;
}

void KvBlockPool::put_into_bucket(int32_t block, const KvLink& link, uint64_t hash,
                                  std::span<const int32_t> tokens) {
  at(block).link = link;
  at(block).hash = hash;
  at(block).next_in_bucket = bucket_of(hash);
  bucket_of(hash) = block;
  std::ranges::copy(tokens, tokens_of(block).begin());
}

bool KvBlockPool::is_tail_after(const Block& block, const KvLink& link, uint64_t tail_hash) const {
  return block.hash == tail_hash && block.tail_tokens > 0 && block.link.parent == link.parent &&
         block.link.domain == link.domain;
}

// All tails of a link share a bucket. Without a limit its list would grow with the number of requests that
// begin alike.
void KvBlockPool::drop_oldest_tail_of_many(const KvLink& link) {
  const uint64_t hash = tail_hash_of(link);
  uint32_t tails = 0;
  int32_t oldest = kNone;
  for (int32_t block = bucket_of(hash); block != kNone; block = at(block).next_in_bucket) {
    if (!is_tail_after(at(block), link, hash)) continue;
    ++tails;
    oldest = block;
  }
  if (tails >= kTailsKept) drop(oldest);
}

void KvBlockPool::leave_tail(int32_t block, const KvLink& link, std::span<const int32_t> tokens) {
  assert(!tokens.empty() && tokens.size() < kKvBlockTokens);
  assert(at(block).holders == 1 && !at(block).published);
  drop_oldest_tail_of_many(link);
  at(block).holders = 0;
  at(block).tail_tokens = static_cast<uint32_t>(tokens.size());
  put_into_bucket(block, link, tail_hash_of(link), tokens);
  keep(block);
}

std::optional<KvBlockPool::Tail> KvBlockPool::take_tail(const KvLink& link, std::span<const int32_t> tokens) {
  const uint64_t hash = tail_hash_of(link);
  Tail best{kNone, 0};
  for (int32_t block = bucket_of(hash); block != kNone; block = at(block).next_in_bucket) {
    const Block& tail = at(block);
    if (!is_tail_after(tail, link, hash)) continue;
    const std::span<const int32_t> own = tokens_of(block).first(tail.tail_tokens);
    const auto common = static_cast<uint32_t>(std::ranges::mismatch(own, tokens).in1 - own.begin());
    if (common > best.tokens) best = {block, common};
  }
  if (best.block == kNone) return std::nullopt;
  take_out_of_kept(best.block);
  forget(best.block);
  at(best.block).holders = 1;
  return best;
}

KvBlockPool::Match KvBlockPool::match(uint64_t domain, std::span<const int32_t> tokens) const {
  Match match;
  KvLink link{KvLink::kRoot, domain};
  for (; tokens.size() >= kKvBlockTokens; tokens = tokens.subspan(kKvBlockTokens)) {
    const std::span<const int32_t> first = tokens.first(kKvBlockTokens);
    link.parent = find(link, first, hash_of(link, first));
    if (link.parent == kNone) break;
    ++match.blocks;
    if (at(link.parent).holders > 0) ++match.held;
  }
  return match;
}

void KvBlockPool::drop_kept() {
  while (oldest_ != kNone) drop(oldest_);
}

// Moves a kept block to the free list.
void KvBlockPool::drop(int32_t block) {
  take_out_of_kept(block);
  forget(block);
  free_.push_back(block);
}

void KvBlockPool::hold(int32_t block) {
  if (at(block).holders++ == 0) take_out_of_kept(block);
}

// A sequence that holds a block also holds all blocks before it, and releases those later. So in this list a
// parent is always newer than its children.
void KvBlockPool::keep(int32_t block) {
  at(block).older = newest_;
  at(block).newer = kNone;
  (newest_ == kNone ? oldest_ : at(newest_).newer) = block;
  newest_ = block;
  ++kept_;
}

void KvBlockPool::take_out_of_kept(int32_t block) {
  const Block& b = at(block);
  (b.older == kNone ? oldest_ : at(b.older).newer) = b.newer;
  (b.newer == kNone ? newest_ : at(b.newer).older) = b.older;
  --kept_;
}

void KvBlockPool::forget(int32_t block) {
  int32_t* link = &bucket_of(at(block).hash);
  while (*link != block) link = &at(*link).next_in_bucket;
  *link = at(block).next_in_bucket;
  at(block).published = false;
  at(block).tail_tokens = 0;
}

}  // namespace serval
