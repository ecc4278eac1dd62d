// Which sequence holds which block of the paged KV cache (vm/layout/kv_cache.h).
//
// A sequence reserves, when it joins, as many blocks as it can ever need, and takes them one by one as it
// grows. So a sequence that runs is never short of a block, and memory that no sequence has reached yet is
// never touched.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace serval {

class KvAllocator;

// The blocks of one sequence; gives them back when it is destroyed. Must not outlive its allocator. Not
// thread-safe itself; different leases of one allocator may be used from different threads.
class KvLease {
 public:
  KvLease() = default;
  KvLease(KvLease&& other) noexcept { swap(other); }
  KvLease& operator=(KvLease&& other) noexcept;
  ~KvLease() { release(); }

  // Takes blocks until there are `count`, which must not exceed what was reserved.
  void grow_to(uint32_t count);
  // Block i holds the tokens [i × kKvBlockTokens, (i + 1) × kKvBlockTokens) of the sequence.
  std::span<const int32_t> blocks() const { return blocks_; }
  uint32_t reserved() const { return reserved_; }
  void release() noexcept;

 private:
  friend class KvAllocator;
  KvLease(KvAllocator& allocator, uint32_t reserved);
  void swap(KvLease& other) noexcept;

  KvAllocator* allocator_ = nullptr;
  uint32_t reserved_ = 0;
  std::vector<int32_t> blocks_;
};

// Thread-safe.
class KvAllocator {
 public:
  explicit KvAllocator(uint32_t num_blocks);
  KvAllocator(const KvAllocator&) = delete;
  KvAllocator& operator=(const KvAllocator&) = delete;

  // Nothing where fewer than `blocks` are unreserved.
  std::optional<KvLease> reserve(uint32_t blocks);

  uint32_t num_blocks() const { return num_blocks_; }
  uint32_t unreserved() const;  // blocks that no sequence may claim
  uint32_t unused() const;      // blocks that no sequence holds

 private:
  friend class KvLease;
  void take(std::vector<int32_t>& blocks, uint32_t count);
  void give_back(std::span<const int32_t> blocks, uint32_t reserved) noexcept;

  const uint32_t num_blocks_;
  mutable std::mutex mutex_;
  uint32_t unreserved_;
  std::vector<int32_t> free_;  // a stack: what was used last is used first, so little memory is touched
};

}  // namespace serval
