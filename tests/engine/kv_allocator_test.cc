#include "engine/runtime/kv_allocator.h"

#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(KvAllocator, RefusesMoreThanIsUnreserved) {
  KvAllocator kv(10);
  auto first = kv.reserve(7);
  ASSERT_TRUE(first);
  EXPECT_FALSE(kv.reserve(4));
  EXPECT_TRUE(kv.reserve(3));
  EXPECT_EQ(kv.unreserved(), 3u);
}

TEST(KvAllocator, TakesBlocksOnlyAsASequenceGrows) {
  KvAllocator kv(10);
  auto lease = kv.reserve(7);
  EXPECT_EQ(kv.unused(), 10u);
  lease->grow_to(2);
  EXPECT_EQ(kv.unused(), 8u);
  lease->grow_to(1);
  EXPECT_EQ(lease->blocks().size(), 2u);
}

TEST(KvAllocator, GetsEverythingBackWhenALeaseEnds) {
  KvAllocator kv(10);
  {
    auto lease = kv.reserve(7);
    lease->grow_to(5);
    KvLease moved = std::move(*lease);
    EXPECT_EQ(kv.unused(), 5u);
  }
  EXPECT_EQ(kv.unused(), 10u);
  EXPECT_EQ(kv.unreserved(), 10u);
}

TEST(KvAllocator, ReusesTheSameFewBlocks) {
  KvAllocator kv(100);
  for (int round = 0; round < 5; ++round) {
    auto lease = kv.reserve(3);
    lease->grow_to(3);
    EXPECT_EQ(std::vector<int32_t>(lease->blocks().begin(), lease->blocks().end()),
              (std::vector<int32_t>{0, 1, 2}));
  }
}

TEST(KvAllocator, NeverGivesABlockToTwo) {
  std::mt19937 random(3);
  KvAllocator kv(64);
  std::vector<KvLease> leases;
  for (int round = 0; round < 5000; ++round) {
    if (random() % 3 == 0 && !leases.empty())
      leases.erase(leases.begin() + static_cast<long>(random() % leases.size()));
    if (auto lease = kv.reserve(1 + random() % 12)) leases.push_back(std::move(*lease));
    std::set<int32_t> held;
    uint32_t reserved = 0;
    for (KvLease& lease : leases) {
      lease.grow_to(static_cast<uint32_t>(random() % (lease.reserved() + 1)));
      reserved += lease.reserved();
      for (const int32_t block : lease.blocks()) EXPECT_TRUE(held.insert(block).second);
    }
    EXPECT_EQ(kv.unused() + held.size(), kv.num_blocks());
    EXPECT_EQ(kv.unreserved() + reserved, kv.num_blocks());
  }
}

}  // namespace
}  // namespace serval
