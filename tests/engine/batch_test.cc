// A sequence's tokens are the same as alone, whatever sequences join and leave around it.
#include <algorithm>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/toy_engine.h"

namespace serval::testing {
namespace {

constexpr int32_t kEos = 2;
constexpr int32_t kVocabulary = 300;

ToyModel toy_model() {
  return hashing_model(kVocabulary, kEos, 40);
}

ToyEngine toy_engine(uint32_t stop_latency = 0) {
  return ToyEngine(toy_model(), {.vocab_size = kVocabulary,
                                 .backend = {.context = 200, .kv_blocks = 40, .stop_latency = stop_latency},
                                 .stop_tokens = {kEos}});
}

Request random_request(std::mt19937& random) {
  Request request;
  request.prompt_ids.resize(1 + random() % 150);
  for (int32_t& id : request.prompt_ids) id = static_cast<int32_t>(random() % kVocabulary);
  request.sampling.temperature = random() % 3 == 0 ? 0 : 1;
  request.sampling.seed = random() % 3;
  request.sampling.stream = static_cast<uint32_t>(random() % 3);
  request.max_tokens = random() % 5 == 0 ? -1 : static_cast<int>(random() % 60);
  request.ignore_eos = random() % 4 == 0;
  return request;
}

Response alone(ToyEngine& toy, const Request& request) {
  return answer_alone(toy_model(), toy.impl().prepare(request));
}

void expect_same(const Response& found, const Response& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.log_probabilities, expected.log_probabilities);
  EXPECT_EQ(found.finish, expected.finish);
}

// A cancelled sequence has a prefix of its answer.
void expect_prefix(const Response& found, Response expected) {
  ASSERT_LE(found.tokens.size(), expected.tokens.size());
  expected.tokens.resize(found.tokens.size());
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.finish, Finish::kCancelled);
}

// Requests that join at random times; some are cancelled.
class Traffic {
 public:
  explicit Traffic(uint32_t seed) : random_(seed), toy_(toy_engine()), batch_(toy_.engine) {}

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (random_() % 3 == 0) join();
      if (random_() % 20 == 0) cancel();
      collect(batch_.step());
    }
    while (!batch_.idle()) collect(batch_.step());
    check();
  }

 private:
  void join() {
    const Request request = random_request(random_);
    requests_[batch_.add(request)] = request;
  }

  void cancel() {
    if (requests_.empty()) return;
    const uint64_t handle = 1 + random_() % requests_.rbegin()->first;
    batch_.cancel(handle);
    cancelled_.push_back(handle);
  }

  void collect(const std::vector<TokenEvent>& events) {
    for (const TokenEvent& event : events) streamed_[event.sequence].push_back(event.token);
  }

  void check() {
    for (const auto& [handle, request] : requests_) {
      const Response found = batch_.take(handle);
      EXPECT_EQ(found.tokens, streamed_[handle]);
      if (found.finish == Finish::kCancelled) {
        EXPECT_THAT(cancelled_, ::testing::Contains(handle));
        expect_prefix(found, alone(toy_, request));
      } else {
        expect_same(found, alone(toy_, request));
      }
    }
    EXPECT_TRUE(toy_.releases_all_blocks());
  }

  std::mt19937 random_;
  ToyEngine toy_;
  Batch batch_;
  std::map<uint64_t, Request> requests_;
  std::map<uint64_t, std::vector<int32_t>> streamed_;
  std::vector<uint64_t> cancelled_;
};

TEST(Batch, GivesEverySequenceTheTokensItGetsAlone) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Traffic(seed).run(150);
  }
}

TEST(Batch, GivesTheSameTokensInLongLaunchesAsStepByStep) {
  for (const uint32_t stop_latency : {0u, 1u, 5u}) {
    std::mt19937 random(stop_latency);
    ToyEngine toy = toy_engine(stop_latency);
    std::vector<Request> requests;
    while (requests.size() < 60) requests.push_back(random_request(random));
    const std::vector<Response> responses = toy.engine.decode_batch(requests);
    ASSERT_EQ(responses.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) expect_same(responses[i], alone(toy, requests[i]));
    EXPECT_LT(toy.backend->launches(), toy.backend->passes_run());
    EXPECT_TRUE(toy.releases_all_blocks());
  }
}

TEST(Batch, KeepsNoPromptWaitingThroughALongLaunch) {
  ToyEngine toy = toy_engine();
  const std::vector<Request> requests = {
      {.prompt_ids = {1}, .max_tokens = 100, .ignore_eos = true},
      {.prompt_ids = std::vector<int32_t>(160, 3), .max_tokens = 1, .ignore_eos = true}};
  toy.engine.decode_batch(requests);
  EXPECT_EQ(toy.backend->passes_run(), 100u);
}

TEST(Batch, LetsSeveralBatchesAndGenerateTakeTurns) {
  ToyEngine toy = toy_engine();
  std::mt19937 random(5);
  const Request requests[3] = {random_request(random), random_request(random), random_request(random)};
  Batch one(toy.engine);
  Batch two(toy.engine);
  const uint64_t first = one.add(requests[0]);
  const uint64_t second = two.add(requests[1]);
  one.step();
  two.step();
  expect_same(toy.engine.generate(requests[2]), alone(toy, requests[2]));
  while (!one.idle() || !two.idle()) {
    one.step();
    two.step();
  }
  expect_same(one.take(first), alone(toy, requests[0]));
  expect_same(two.take(second), alone(toy, requests[1]));
}

// Rows of a pass and slots of the state are limits of the program; a sequence needs one of each.
TEST(Batch, DecodesAsManyTogetherAsTheProgramHasRowsAndSlots) {
  for (const auto& [rows, sequences] : {std::pair{1U, 16U}, {16U, 3U}, {48U, 40U}, {256U, 100U}}) {
    ToyEngine toy(toy_model(),
                  {.vocab_size = kVocabulary,
                   .backend = {.context = 200, .kv_blocks = 400, .rows = rows, .sequences = sequences},
                   .stop_tokens = {kEos}});
    std::mt19937 random(rows);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 120; ++i) requests.push_back(random_request(random));
    const std::vector<Response> together = toy.engine.decode_batch(requests);
    for (size_t i = 0; i < requests.size(); ++i) expect_same(together[i], alone(toy, requests[i]));
    EXPECT_LE(toy.backend->most_sequences(), std::min(rows, sequences));
  }
}

TEST(Batch, LetsASeventeenthSequenceWait) {
  ToyEngine toy = toy_engine();
  Batch batch(toy.engine);
  std::vector<uint64_t> added;
  for (int i = 0; i < 17; ++i) added.push_back(batch.add({.prompt_ids = {1, 2}, .max_tokens = 2}));
  while (!batch.idle()) batch.step();
  for (const uint64_t handle : added) EXPECT_EQ(batch.take(handle).tokens.size(), 2u);
  EXPECT_LE(toy.backend->most_sequences(), 16u);
}

TEST(Batch, RefusesAKvCacheThatHoldsNoFullContext) {
  try {
    ToyEngine toy(toy_model(), {.backend = {.context = 200, .kv_blocks = 3}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_STREQ(error.what(), "KV cache: 3 blocks of 64 tokens; a context of 200 needs 4");
  }
}

TEST(Batch, ReturnsItsBlocksWhenItIsDestroyed) {
  ToyEngine toy = toy_engine();
  {
    Batch batch(toy.engine);
    batch.add({.prompt_ids = std::vector<int32_t>(100, 1)});
    batch.step();
  }
  EXPECT_TRUE(toy.releases_all_blocks());
}

TEST(Batch, SaysWhyAResponseCannotBeTaken) {
  ToyEngine toy = toy_engine();
  Batch batch(toy.engine);
  const uint64_t handle = batch.add({.prompt_ids = {1}, .max_tokens = 3, .ignore_eos = true});
  const auto refusal = [&](uint64_t which) {
    try {
      batch.take(which);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(refusal(handle), "sequence 1: still running");
  EXPECT_EQ(refusal(77), "sequence 77: unknown handle");
  while (!batch.idle()) batch.step();
  EXPECT_EQ(refusal(handle), "taken");
  EXPECT_EQ(refusal(handle), "sequence 1: unknown handle");
}

TEST(Batch, CancelsOneSequenceAndLeavesTheOthers) {
  ToyEngine toy = toy_engine();
  toy.backend->before_each_pass([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  Batch batch(toy.engine);
  const Request request{.prompt_ids = {4, 5}, .max_tokens = 100, .ignore_eos = true};
  const uint64_t stays = batch.add(request);
  const uint64_t goes = batch.add(request);
  std::vector<TokenEvent> seen = batch.step();
  batch.cancel(goes);
  while (!batch.idle()) {
    for (const TokenEvent& event : batch.step()) EXPECT_EQ(event.sequence, stays);
  }
  const Response cancelled = batch.take(goes);
  EXPECT_EQ(cancelled.finish, Finish::kCancelled);
  EXPECT_EQ(cancelled.tokens.size(),
            std::ranges::count_if(seen, [&](const TokenEvent& event) { return event.sequence == goes; }));
  expect_same(batch.take(stays), alone(toy, request));
}

TEST(Batch, EndsItsSequencesWithTheErrorWhenTheDeviceFaults) {
  ToyEngine toy = toy_engine();
  toy.backend->fail_at_pass(3);
  Batch batch(toy.engine);
  const Request request{.prompt_ids = {4, 5}, .max_tokens = 20, .ignore_eos = true};
  const uint64_t handle = batch.add(request);
  while (!batch.idle()) batch.step();
  const Response failed = batch.take(handle);
  EXPECT_EQ(failed.finish, Finish::kError);
  EXPECT_EQ(failed.error_kind, ErrorKind::kDeviceFault);
  EXPECT_EQ(failed.error, "fake: SM 3 pc 17: no progress");
  EXPECT_EQ(failed.tokens.size(), 3u) << "earlier tokens are kept";
  toy.backend->fail_at_pass(~uint64_t{0});
  expect_same(toy.engine.generate(request), alone(toy, request));
}

}  // namespace
}  // namespace serval::testing
