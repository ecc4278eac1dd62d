#include "engine/server/service/fair_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace serval::server {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> pop(FairQueue& queue, int count) {
  std::vector<uint64_t> ids;
  for (int i = 0; i < count; ++i) {
    const auto id = queue.pop();
    if (id) ids.push_back(*id);
  }
  return ids;
}

TEST(FairQueue, OneKeyIsServedInTheOrderOfArrival) {
  FairQueue queue;
  for (const uint64_t id : {1, 2, 3}) queue.push({.id = id, .key = "a"});
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_THAT(pop(queue, 4), ElementsAre(1, 2, 3));
  EXPECT_EQ(queue.in_engine(), 3U);
}

TEST(FairQueue, AKeyWithManyRequestsDoesNotDelayAnother) {
  FairQueue queue;
  for (uint64_t id = 1; id <= 100; ++id) queue.push({.id = id, .key = "greedy"});
  EXPECT_THAT(pop(queue, 2), ElementsAre(1, 2));
  queue.push({.id = 101, .key = "modest"});
  queue.push({.id = 102, .key = "modest"});
  EXPECT_THAT(pop(queue, 4), ElementsAre(101, 102, 3, 4)) << "until both have two in the engine";
}

TEST(FairQueue, AnswersCountAndNotRequests) {
  FairQueue queue;
  queue.push({.id = 1, .key = "many", .answers = 8});
  queue.push({.id = 2, .key = "many", .answers = 8});
  for (uint64_t id = 3; id <= 6; ++id) queue.push({.id = id, .key = "one"});
  EXPECT_THAT(pop(queue, 6), ElementsAre(1, 3, 4, 5, 6, 2));
}

TEST(FairQueue, APriorityCountsAmongTheKeysOwnRequests) {
  FairQueue queue;
  queue.push({.id = 1, .key = "a"});
  queue.push({.id = 2, .key = "a", .priority = -5});
  queue.push({.id = 3, .key = "b", .priority = 7});
  EXPECT_THAT(pop(queue, 3), ElementsAre(2, 3, 1));
}

TEST(FairQueue, EndedRequestsMakeRoom) {
  FairQueue queue;
  const FairQueue::Ticket first{.id = 1, .key = "a"}, second{.id = 2, .key = "a"};
  queue.push(first);
  queue.push(second);
  pop(queue, 1);
  EXPECT_FALSE(queue.erase(first)) << "it does not wait any more";
  EXPECT_TRUE(queue.erase(second));
  queue.end(first);
  EXPECT_EQ(queue.in_engine(), 0U);
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

}  // namespace
}  // namespace serval::server
