#include "vm/device/rank_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/base/error.h"

namespace serval {
namespace {

using ::testing::Each;

constexpr uint32_t kRanks = 8;

std::vector<std::thread::id> threads_of(RankThreads& threads) {
  std::vector<std::thread::id> ids(threads.size());
  threads.run([&](uint32_t rank) { ids[rank] = std::this_thread::get_id(); });
  return ids;
}

std::string error_of(RankThreads& threads, const std::function<void(uint32_t)>& work) {
  try {
    threads.run(work);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RankThreads, EachRankHasAThreadThatStays) {
  RankThreads threads(kRanks);
  const std::vector<std::thread::id> ids = threads_of(threads);
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    for (uint32_t lower = 0; lower < rank; ++lower) EXPECT_NE(ids[rank], ids[lower]);
  }
  for (int call = 0; call < 100; ++call) ASSERT_EQ(threads_of(threads), ids);
}

// Each thread waits for all others.
TEST(RankThreads, AllRunAtTheSameTime) {
  RankThreads threads(kRanks);
  for (int call = 0; call < 100; ++call) {
    std::latch all(kRanks);
    threads.run([&](uint32_t) { all.arrive_and_wait(); });
  }
}

TEST(RankThreads, OneRankIsAPlainCall) {
  RankThreads threads(1);
  EXPECT_EQ(threads_of(threads)[0], std::this_thread::get_id());
  EXPECT_EQ(error_of(threads, [](uint32_t) { throw Error(ErrorKind::kRuntime, "rank 0"); }), "rank 0");
  EXPECT_EQ(threads_of(threads)[0], std::this_thread::get_id());
}

// Without atomics, so that ThreadSanitizer can find races.
TEST(RankThreads, SeeWhatWasWrittenBeforeAndAreSeenAfterwards) {
  RankThreads threads(kRanks);
  uint64_t before = 0;
  std::vector<uint64_t> after(kRanks);
  for (uint64_t call = 1; call <= 2000; ++call) {
    before = call;
    threads.run([&](uint32_t rank) { after[rank] += before - after[rank]; });
    ASSERT_THAT(after, Each(call));
  }
}

TEST(RankThreads, WakeAfterALongSleep) {
  RankThreads threads(kRanks);
  for (uint32_t call = 1; call <= 5; ++call) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<uint32_t> calls{0};
    threads.run([&](uint32_t rank) {
      // Some take longer than the caller spins.
      if (rank % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++calls;
    });
    EXPECT_EQ(calls, kRanks);
  }
}

TEST(RankThreads, ThrowTheLowestRanksErrorWhenAllHaveReturned) {
  RankThreads threads(kRanks);
  std::latch highest_has_failed(1);
  std::atomic<uint32_t> others{0};
  const auto work = [&](uint32_t rank) {
    if (rank == kRanks - 1) {
      highest_has_failed.count_down();
      throw Error(ErrorKind::kRuntime, "rank 7");
    }
    highest_has_failed.wait();
    if (rank == 3) throw Error(ErrorKind::kRuntime, "rank 3");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++others;
  };
  EXPECT_EQ(error_of(threads, work), "rank 3");
  EXPECT_EQ(others, kRanks - 2);
}

TEST(RankThreads, EveryRanksErrorIsThrownAndTheNextCallIsLikeAnyOther) {
  RankThreads threads(kRanks);
  for (uint32_t bad = 0; bad < kRanks; ++bad) {
    const std::string text = "rank " + std::to_string(bad);
    const auto work = [&](uint32_t rank) {
      if (rank == bad) throw Error(ErrorKind::kDeviceFault, text);
    };
    EXPECT_EQ(error_of(threads, work), text);
    std::atomic<uint32_t> calls{0};
    EXPECT_EQ(error_of(threads, [&](uint32_t) { ++calls; }), "");
    EXPECT_EQ(calls, kRanks);
  }
}

TEST(RankThreads, ServeOneCallerAfterAnother) {
  RankThreads threads(kRanks);
  const std::vector<std::thread::id> first = threads_of(threads);
  std::vector<std::thread::id> second;
  std::thread other([&] {
    second = threads_of(threads);
    EXPECT_EQ(second[0], std::this_thread::get_id());
  });
  other.join();
  EXPECT_TRUE(std::equal(first.begin() + 1, first.end(), second.begin() + 1));
}

TEST(RankThreads, EndWithoutACall) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(RankThreads(kRanks).size(), kRanks);
}

}  // namespace
}  // namespace serval
