// The pass loop plans a launch while the previous one runs. Whatever that one leaves, each request gets the
// same tokens as alone, exactly once.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/core/pass_loop.h"
#include "tests/engine/stepped_loop.h"

namespace serval::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

using Loop = SteppedLoop;

std::vector<int32_t> first_of(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(std::min(count, tokens.size()))};
}

// Takes many launches of one pass each, in which another sequence generates.
constexpr size_t kLongPrompt = 200;

TEST(PlanAhead, PreparesTheNextLaunchBeforeTheOneInFlightEnds) {
  Loop loop;
  loop.add(request(1, 100));
  loop.add(request(kLongPrompt, 20, 3));
  std::vector<bool> prepared;
  loop.backend.before_each_pass([&] { prepared.push_back(loop.backend.is_prepared()); });
  for (int step = 0; step < 10; ++step) loop.loop.step();
  EXPECT_THAT(prepared, Each(true));
  EXPECT_EQ(loop.backend.launches_prepared(), loop.backend.launches() - 1) << "all but the first";
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].tokens, loop.tokens_alone(request(1, 100)));
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(request(kLongPrompt, 20, 3)));
}

TEST(PlanAhead, DeliversTheTokensOfALaunchWhileTheNextOneRuns) {
  Loop loop;
  loop.add(request(1, 100));
  loop.add(request(kLongPrompt, 20, 3));
  std::vector<size_t> tokens;
  loop.backend.before_each_pass([&] { tokens.push_back(loop.answers[0].tokens.size()); });
  for (int step = 0; step < 4; ++step) loop.loop.step();
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3));
}

TEST(PlanAhead, ContinuesWithoutASequenceThatAStopTokenEnds) {
  Loop loop;
  Request ends = request(1, 100);
  ends.stop_token_ids = {loop.tokens_alone(ends).at(3)};
  loop.add(ends);
  loop.add(request(kLongPrompt, 20, 3));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].tokens, loop.tokens_alone(ends));
  EXPECT_EQ(loop.answers[0].tokens.size(), 4u);
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(request(kLongPrompt, 20, 3)));
  EXPECT_EQ(loop.loop.stats().generated_tokens, 24u);
}

// A sequence that is about to end still holds its blocks, so the remaining one has to wait for them: planned
// ahead, it would run without.
TEST(PlanAhead, WaitsForTheBlocksOfASequenceThatIsAboutToEnd) {
  Loop loop({.context = 256, .kv_blocks = 4, .rows = 64, .sequences = 2});
  loop.add(request(20, 93));
  loop.add(request(36, 120, 3));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].tokens, loop.tokens_alone(request(20, 93)));
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(request(36, 120, 3)));
}

TEST(PlanAhead, DropsTokensAfterAStopStringOfThePreviousLaunch) {
  Loop loop({}, 0, scripted_model(1, {'a', 'b', 'c', 'd'}));
  Request ends = request(1, 100);
  ends.stop = {"bc"};
  loop.add(ends);
  loop.add(request(kLongPrompt, 20, 3));
  loop.add(request(1, 30));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].finish, Finish::kStop);
  EXPECT_THAT(loop.answers[0].tokens, ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(loop.answers[1].tokens.size(), 20u);
  EXPECT_EQ(loop.answers[2].tokens.size(), 30u);
  EXPECT_EQ(loop.loop.stats().generated_tokens, 53u);
  EXPECT_EQ(loop.loop.stats().rows, 1 + kLongPrompt + 1 + 2 + 19 + 29 + 1) << "one is wasted";
}

// In any pass, with and without other sequences that read prompts.
TEST(PlanAhead, EndsACancelledSequenceWithNoTokenLostOrTwice) {
  for (const size_t prompt : {size_t{1}, kLongPrompt}) {
    for (uint64_t pass = 0; pass < 40; ++pass) {
      SCOPED_TRACE(pass);
      Loop loop;
      const Request first = request(1, 60), second = request(prompt, 20, 3);
      loop.add(first);
      loop.add(second);
      loop.backend.before_each_pass([&] {
        if (loop.backend.passes_run() == pass) loop.channels[0]->cancel();
      });
      loop.run_to_end();
      EXPECT_EQ(loop.ended.size(), 2u);
      EXPECT_EQ(loop.answers[0].finish, Finish::kCancelled);
      const std::vector<int32_t>& tokens = loop.answers[0].tokens;
      EXPECT_EQ(tokens, first_of(loop.tokens_alone(first), tokens.size()));
      EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(second));
    }
  }
}

TEST(PlanAhead, LetsASequenceJoinThatArrivesInAnyPass) {
  for (uint64_t pass = 0; pass < 30; ++pass) {
    SCOPED_TRACE(pass);
    Loop loop;
    const std::vector<Request> requests = {request(1, 80), request(100, 20, 3), request(30, 10, 5)};
    loop.add(requests[0]);
    loop.add(requests[1]);
    bool arrived = false;
    loop.backend.before_each_pass([&] {
      if (loop.backend.passes_run() == pass) arrived = loop.signals->arrived = true;
    });
    while (!arrived) loop.loop.step();
    EXPECT_LE(loop.backend.passes_run(), pass + 1);
    loop.signals->arrived = false;
    loop.add(requests[2]);
    loop.run_to_end();
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(loop.answers[i].tokens, loop.tokens_alone(requests[i]));
  }
}

// The queue is never empty: when a sequence leaves, another joins, and the backend does not wait for the
// host.
TEST(PlanAhead, FillsFreedSlotsWithoutPlanningBetweenLaunches) {
  Loop loop({.context = 512, .kv_blocks = 256}, 4);
  std::vector<Request> requests;
  for (int32_t i = 0; i < 40; ++i) {
    requests.push_back(request(1 + static_cast<size_t>(i * 7 % 40), 5 + i * 11 % 30, 10 + i));
    if (i % 3 == 0) requests.back().sampling.repetition_penalty = 1.5F;  // keeps a history
    if (i % 4 == 0) requests.back().top_logprobs = 3;
    loop.add(requests.back());
  }
  while (loop.loop.stats().waiting > 0) loop.loop.step();
  EXPECT_EQ(loop.backend.launches_prepared(), loop.backend.launches() - 1);
  EXPECT_EQ(loop.backend.most_sequences(), 4u);
  loop.run_to_end();
  uint64_t generated = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(loop.answers[i].tokens, loop.tokens_alone(requests[i]));
    generated += loop.answers[i].tokens.size();
  }
  EXPECT_EQ(loop.loop.stats().generated_tokens, generated);
}

TEST(PlanAhead, EndsALaunchWhenASlotBecomesFreeForAWaitingRequest) {
  Loop loop({.stop_latency = 5}, 2);
  loop.add(request(1, 100));
  loop.add(request(1, 10, 2));
  loop.add(request(1, 10, 3));
  loop.run_to_end();
  EXPECT_EQ(loop.backend.passes_run(), 100u) << "none runs on until it is stopped";
  EXPECT_THAT(loop.ended, ElementsAre(1, 2, 0));
}

TEST(PlanAhead, DeliversTheLastTokensBeforeTheNextLaunchFails) {
  for (const bool begins : {true, false}) {
    Loop loop;
    begins ? loop.backend.fail_at_pass(3) : loop.backend.fail_before_launch(3);
    const Request first = request(1, 100);
    loop.add(first);
    loop.add(request(kLongPrompt, 20, 3));
    loop.run_to_end();
    EXPECT_EQ(loop.answers[0].tokens, first_of(loop.tokens_alone(first), 3)) << begins;
    for (const Response& answer : loop.answers) EXPECT_EQ(answer.finish, Finish::kError);
    EXPECT_EQ(loop.ended.size(), 2u);
  }
}

TEST(PlanAhead, DeliversTheLastTokensBeforeAllRequestsEnd) {
  Loop loop;
  const Request first = request(1, 100);
  loop.add(first);
  loop.add(request(kLongPrompt, 20, 3));
  loop.loop.step();
  loop.loop.step();
  loop.loop.end_all(Finish::kCancelled);
  EXPECT_TRUE(loop.loop.idle());
  EXPECT_EQ(loop.answers[0].tokens, first_of(loop.tokens_alone(first), 2));
  EXPECT_EQ(loop.loop.stats().kv_blocks_held, 0u);
}

}  // namespace
}  // namespace serval::testing
