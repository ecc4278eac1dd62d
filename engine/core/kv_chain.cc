#include "engine/core/kv_chain.h"

#include <algorithm>
#include <utility>

namespace serval {

KvLink KvChain::link() const {
  return {published_ == 0 ? KvLink::kRoot : blocks_[published_ - 1], domain_};
}

void KvChain::set(uint32_t index, int32_t block) {
  if (index == blocks_.size()) {
    blocks_.push_back(block);
  } else if (blocks_[index] != block) {
    blocks_[index] = block;
  } else {
    return;
  }
  first_changed_ = std::min(first_changed_, index);
}

uint32_t KvChain::reuse(std::span<const int32_t> tokens, uint32_t limit) {
  while ((published_ + 1) * kKvBlockTokens <= limit) {
    const auto found =
        pool_.reuse(link(), tokens.subspan(size_t{published_} * kKvBlockTokens, kKvBlockTokens));
    if (!found) break;
    if (published_ < blocks_.size()) pool_.release({&blocks_[published_], 1});
    set(published_++, *found);
  }
  return published_ * kKvBlockTokens + take_tail(tokens.first(limit));
}

// Returns the number of tokens in the tail.
uint32_t KvChain::take_tail(std::span<const int32_t> tokens) {
  const std::span<const int32_t> rest = tokens.subspan(size_t{published_} * kKvBlockTokens);
  if (rest.empty()) return 0;
  const auto tail = pool_.take_tail(link(), rest.first(std::min<size_t>(rest.size(), kKvBlockTokens)));
  if (!tail) return 0;
  if (published_ < blocks_.size()) pool_.release({&blocks_[published_], 1});
  set(published_, tail->block);
  return tail->tokens;
}

bool KvChain::grow_to(uint32_t blocks) {
  if (blocks <= size()) return true;
  if (blocks - size() > pool_.available()) return false;
  while (size() < blocks) set(size(), *pool_.allocate());
  return true;
}

void KvChain::publish(std::span<const int32_t> tokens, uint32_t computed) {
  while ((published_ + 1) * kKvBlockTokens <= computed) {
    const auto content = tokens.subspan(size_t{published_} * kKvBlockTokens, kKvBlockTokens);
    set(published_, pool_.publish(blocks_[published_], link(), content));
    ++published_;
  }
}

void KvChain::leave(std::span<const int32_t> tokens, uint32_t computed) {
  const uint32_t full = published_ * kKvBlockTokens;
  if (full < computed && computed < full + kKvBlockTokens) {
    const std::span<const int32_t> held = blocks_;
    pool_.release(held.subspan(published_ + 1));
    pool_.leave_tail(held[published_], link(), tokens.subspan(full, computed - full));
    blocks_.resize(published_);
  }
  release();
}

void KvChain::release() {
  pool_.release(blocks_);
  blocks_.clear();
  published_ = 0;
  first_changed_ = 0;
}

uint32_t KvChain::take_first_changed() {
  return std::exchange(first_changed_, size());
}

}  // namespace serval
