#include "engine/runtime/kv_allocator.h"

#include <cassert>
#include <utility>

namespace serval {

KvLease::KvLease(KvAllocator& allocator, uint32_t reserved) : allocator_(&allocator), reserved_(reserved) {
  blocks_.reserve(reserved);
}

KvLease& KvLease::operator=(KvLease&& other) noexcept {
  KvLease taken(std::move(other));
  swap(taken);
  return *this;
}

void KvLease::swap(KvLease& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(reserved_, other.reserved_);
  blocks_.swap(other.blocks_);
}

void KvLease::grow_to(uint32_t count) {
  assert(count <= reserved_);
  if (count > blocks_.size()) allocator_->take(blocks_, count);
}

void KvLease::release() noexcept {
  if (allocator_ != nullptr) allocator_->give_back(blocks_, reserved_);
  allocator_ = nullptr;
  reserved_ = 0;
  blocks_.clear();
}

KvAllocator::KvAllocator(uint32_t num_blocks) : num_blocks_(num_blocks), unreserved_(num_blocks) {
  free_.reserve(num_blocks);
  for (uint32_t block = num_blocks; block > 0; --block) free_.push_back(static_cast<int32_t>(block - 1));
}

std::optional<KvLease> KvAllocator::reserve(uint32_t blocks) {
  const std::lock_guard lock(mutex_);
  if (blocks > unreserved_) return std::nullopt;
  KvLease lease(*this, blocks);
  unreserved_ -= blocks;
  return lease;
}

uint32_t KvAllocator::unreserved() const {
  const std::lock_guard lock(mutex_);
  return unreserved_;
}

uint32_t KvAllocator::unused() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(free_.size());
}

void KvAllocator::take(std::vector<int32_t>& blocks, uint32_t count) {
  const std::lock_guard lock(mutex_);
  while (blocks.size() < count) {
    blocks.push_back(free_.back());
    free_.pop_back();
  }
}

void KvAllocator::give_back(std::span<const int32_t> blocks, uint32_t reserved) noexcept {
  const std::lock_guard lock(mutex_);
  // Backwards, so that the next sequence gets them in the same order.
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  unreserved_ += reserved;
}

}  // namespace serval
