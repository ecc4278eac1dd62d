// Log-probabilities of prompts: which rows a pass has for them, and what a request gets.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/core/pass_loop.h"
#include "tests/engine/stepped_loop.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

Request scored(size_t prompt, int max_tokens, uint32_t likeliest = 0, int from = 1) {
  Request scored = request(prompt, max_tokens);
  for (size_t i = 0; i < prompt; ++i) scored.prompt_ids[i] = static_cast<int32_t>(i * 7 % 200);
  scored.prompt_logprobs = likeliest;
  scored.prompt_logprobs_from = from;
  return scored;
}

// What the toy model gives the prompt's tokens.
std::vector<PromptLogprob> scores_of(const Request& request) {
  std::vector<PromptLogprob> scores;
  const std::span<const int32_t> prompt = request.prompt_ids;
  for (auto i = static_cast<size_t>(request.prompt_logprobs_from); i < prompt.size(); ++i) {
    const float log_probability = toy_log_probability(prompt.first(i), prompt[i]);
    PromptLogprob& score = scores.emplace_back(PromptLogprob{prompt[i], log_probability, {}});
    for (uint32_t top = 0; top < *request.prompt_logprobs; ++top)
      score.top_logprobs.push_back({prompt[i] + static_cast<int32_t>(top), log_probability});
  }
  return scores;
}

using Loop = SteppedLoop;

TEST(PromptLogprobs, AreThoseOfEachTokenAfterTheFirst) {
  for (const uint32_t rows : {1u, 4u, 16u, 48u, 256u}) {
    SCOPED_TRACE(rows);
    Loop loop({.rows = rows});
    const Request three = scored(150, 0, 3), none = scored(33, 0);
    loop.add(three);
    loop.add(none);
    loop.add(scored(1, 0));
    loop.run_to_end();
    EXPECT_EQ(loop.answers[0].prompt_logprobs, scores_of(three));
    EXPECT_EQ(loop.answers[1].prompt_logprobs, scores_of(none));
    EXPECT_TRUE(loop.answers[2].prompt_logprobs.empty());
    EXPECT_EQ(loop.answers[0].finish, Finish::kLength);
  }
}

TEST(PromptLogprobs, BeginAtTheTokenThatIsAskedFor) {
  for (const int from : {2, 64, 65, 149, 150, 1000}) {
    SCOPED_TRACE(from);
    Loop loop;
    const Request request = scored(150, 0, 1, from);
    loop.add(request);
    loop.run_to_end();
    EXPECT_EQ(loop.answers[0].prompt_logprobs, scores_of(request));
  }
}

TEST(PromptLogprobs, LeaveTheGeneratedTokensAsTheyAre) {
  Loop loop;
  const Request plain = request(1, 20), with = scored(100, 20, 2);
  Request without = with;
  without.prompt_logprobs.reset();
  loop.add(with);
  loop.add(plain);
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].tokens, loop.tokens_alone(without));
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(plain));
}

// Only launches that read the prompt list likeliest tokens.
TEST(PromptLogprobs, DoNotMakeTheLaunchesThatGenerateShorter) {
  Loop loop;
  loop.add(scored(16, 64, 5));
  loop.run_to_end();
  EXPECT_EQ(loop.backend.launches(), 2u);
}

TEST(PromptLogprobs, OfALongPromptComeInPassesOfAsManyRowsAsMayWantLogits) {
  Loop loop({.context = 2048, .kv_blocks = 64, .rows = 2048});
  const Request request = scored(1500, 0);
  loop.add(request);
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].prompt_logprobs, scores_of(request));
  EXPECT_EQ(loop.backend.passes_run(), 2u);
  const uint64_t before = loop.backend.passes_run();
  loop.add(scored(1501, 0, 0, 1200));
  loop.run_to_end();
  EXPECT_EQ(loop.backend.passes_run(), before + 1) << "what comes before needs no logits";
}

// The row before the first wanted token is computed, and its block with it.
TEST(PromptLogprobs, TakeOnlyWhatComesBeforeThemFromTheCache) {
  Loop loop({.context = 512, .rows = 64});
  loop.add(scored(200, 0));
  loop.run_to_end();
  const auto cached = [&](int from) {
    const Request request = scored(200, 0, 1, from);
    const size_t index = loop.add(request);
    loop.run_to_end();
    EXPECT_EQ(loop.answers[index].prompt_logprobs, scores_of(request));
    return loop.answers[index].cached_tokens;
  };
  EXPECT_EQ(cached(1), 0);
  EXPECT_EQ(cached(64), 0) << "row 63 is in the first block";
  EXPECT_EQ(cached(65), 64);
  EXPECT_EQ(cached(199), 192 + 6) << "three blocks and most of the tail";
}

TEST(PromptLogprobs, ShareAPromptThatIsBeingRead) {
  Loop loop({.context = 512, .rows = 64});
  for (int i = 0; i < 4; ++i) {
    Request choice = scored(190 + static_cast<size_t>(i), 0, 1, 180);
    loop.add(choice);
  }
  loop.run_to_end();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(loop.answers[i].prompt_logprobs, scores_of(scored(190 + i, 0, 1, 180))) << i;
  EXPECT_GT(loop.loop.stats().cached_tokens, 300u);
}

TEST(PromptLogprobs, AreWithTheFirstAnswerOnly) {
  Loop loop;
  Request request = scored(40, 3, 1);
  request.n = 3;
  std::vector<size_t> sizes(3), events(3);
  loop.on_event = [&](const RequestEvent& event) {
    const size_t size = event.response.prompt_logprobs.size();
    if (events[event.answer]++ == 0) sizes[event.answer] = size;
    if (events[event.answer] > 1) {
      EXPECT_EQ(size, 0u);
    }
  };
  loop.add(request);
  loop.run_to_end();
  EXPECT_EQ(sizes, (std::vector<size_t>{39, 0, 0})) << "in its first event";
}

// A prompt that gave its blocks back is read again; its tokens are not scored twice.
TEST(PromptLogprobs, AreNotComputedAgainAfterAPreemption) {
  Loop loop({.context = 256, .kv_blocks = 5, .rows = 64});
  Request first = request(1, 200);
  first.priority = -1;
  loop.add(first);
  const Request second = scored(120, 120, 1);
  const size_t index = loop.add(second);
  loop.run_to_end();
  EXPECT_GT(loop.loop.stats().preemptions, 0u);
  EXPECT_EQ(loop.answers[index].prompt_logprobs, scores_of(second));
  Request without = second;
  without.prompt_logprobs.reset();
  EXPECT_EQ(loop.answers[index].tokens, loop.tokens_alone(without));
}

TEST(PromptLogprobs, OfLogitsThatAreNotFiniteAreAnError) {
  Loop loop({.rows = 64});
  loop.backend.spoil_scores_after(30);
  loop.add(scored(100, 4, 1));
  const Request other = request(3, 8);
  loop.add(other);
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].finish, Finish::kError);
  EXPECT_THAT(loop.answers[0].error, HasSubstr("token 31 of the text: the model's logits are NaN"));
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(other)) << "others go on";
}

}  // namespace
}  // namespace serval::testing
