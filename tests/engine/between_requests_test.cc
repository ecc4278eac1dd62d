// Core::between_requests: which requests a change of the weights waits for, and which ones wait for it.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/toy_engine.h"

namespace serval::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kVocabulary = 300;

// An engine whose model writes the same token again and again: its version.
struct Versioned {
  std::shared_ptr<std::atomic<int32_t>> version = std::make_shared<std::atomic<int32_t>>(1);
  ToyEngine toy{[version = version](const SequenceSlot&, std::span<const int32_t>) -> SampledToken {
                  return {version->load(), -1};
                },
                {.vocab_size = kVocabulary, .backend = {.context = 200, .kv_blocks = 40}}};

  Core& core() { return toy.impl().core; }
  void set_version(int32_t to, bool cancel = false) {
    core().between_requests([&] { *version = to; }, cancel);
  }
  void slow_down() {
    toy.backend->before_each_pass([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
};

Request request(int max_tokens, size_t prompt = 3) {
  Request request;
  request.prompt_ids.assign(prompt, 7);
  request.max_tokens = max_tokens;
  return request;
}

TEST(BetweenRequests, TheRequestsThatItFindsFinishFirst) {
  Versioned engine;
  engine.slow_down();
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 20; ++i) handles.push_back(engine.toy.engine.submit(request(20)));  // some have to wait
  engine.set_version(2);
  for (RequestHandle& handle : handles) {
    const Response response = handle.wait().at(0);
    EXPECT_EQ(response.finish, Finish::kLength);
    EXPECT_THAT(response.tokens, Each(1));
  }
  EXPECT_THAT(engine.toy.engine.generate(request(5)).tokens, Each(2));
}

TEST(BetweenRequests, RequestsThatComeMeanwhileWait) {
  Versioned engine;
  engine.slow_down();
  RequestHandle before = engine.toy.engine.submit(request(100));
  ASSERT_TRUE(before.next());
  auto change = std::async(std::launch::async, [&] { engine.set_version(2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  RequestHandle after = engine.toy.engine.submit(request(5));
  EXPECT_THAT(after.wait().at(0).tokens, Each(2));
  EXPECT_TRUE(before.wait().at(0).finish == Finish::kLength);
  change.get();
}

TEST(BetweenRequests, CancelsTheRequestsThatItFindsIfItIsToldTo) {
  Versioned engine;
  engine.slow_down();
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 20; ++i) handles.push_back(engine.toy.engine.submit(request(-1)));
  engine.set_version(2, true);
  for (RequestHandle& handle : handles) EXPECT_EQ(handle.wait().at(0).finish, Finish::kCancelled);
  EXPECT_THAT(engine.toy.engine.generate(request(5)).tokens, Each(2));
}

TEST(BetweenRequests, ForgetsTheKeysAndValuesOfEarlierRequests) {
  Versioned engine;
  engine.toy.engine.generate(request(5, 130));
  EXPECT_GT(engine.toy.engine.generate(request(5, 130)).cached_tokens, 100);
  engine.set_version(2);
  engine.core().wait_until_idle();
  EXPECT_EQ(engine.toy.engine.stats().kv_blocks_kept, 0u);
  EXPECT_EQ(engine.toy.engine.generate(request(5, 130)).cached_tokens, 0);
}

TEST(BetweenRequests, RethrowsAndGoesOn) {
  Versioned engine;
  EXPECT_THROW(engine.core().between_requests([] { throw Error(ErrorKind::kOutOfMemory, "full"); }, false),
               Error);
  EXPECT_THAT(engine.toy.engine.generate(request(5)).tokens, Each(1));
}

// The change is refused, and the requests that waited for it still end.
TEST(BetweenRequests, EndsWithTheEngine) {
  Versioned engine;
  engine.slow_down();
  RequestHandle before = engine.toy.engine.submit(request(-1));
  ASSERT_TRUE(before.next());
  std::string refusal;
  std::thread change([&] {
    try {
      engine.set_version(2);
    } catch (const Error& error) {
      refusal = error.what();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  RequestHandle after = engine.toy.engine.submit(request(5));
  engine.toy.engine.shutdown();
  change.join();
  EXPECT_THAT(refusal, HasSubstr("shut down"));
  EXPECT_EQ(before.wait().at(0).finish, Finish::kCancelled);
  EXPECT_EQ(after.wait().at(0).finish, Finish::kCancelled);
}

TEST(BetweenRequests, NoRequestSeesTwoVersions) {
  Versioned engine;
  constexpr int kClients = 4, kAnswers = 50;
  std::atomic<int> running{kClients};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      for (int answer = 0; answer < kAnswers; ++answer) {
        const int32_t earliest = *engine.version;
        const Response response = engine.toy.engine.generate(request(10));
        const std::set<int32_t> versions(response.tokens.begin(), response.tokens.end());
        EXPECT_EQ(versions.size(), 1u);
        EXPECT_GE(*versions.begin(), earliest);
      }
      --running;
    });
  }
  for (int32_t version = 2; running > 0 && version < kVocabulary; ++version) {
    engine.set_version(version);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace serval::testing
