// Decisions of the loop between launches, one step at a time and without threads.
#include "engine/core/pass_loop.h"

#include <malloc.h>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/stepped_loop.h"

namespace serval::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

using Loop = SteppedLoop;

TEST(PassLoop, ReadsPromptsInPiecesWhileOthersGenerate) {
  Loop loop;
  loop.add(request(1, 50));
  loop.add(request(31, 50, 3));
  std::vector<size_t> tokens;
  for (int step = 0; step < 4; ++step) {
    loop.loop.step();
    tokens.push_back(loop.answers[0].tokens.size());
  }
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 50))
      << "tokens are delivered one step later; the last launch generates for both";
  EXPECT_EQ(loop.answers[1].tokens.size(), 50u);
  EXPECT_EQ(loop.backend.launches(), 4u);
}

TEST(PassLoop, CountsTheTimeBetweenLaunchesThatFollowEachOther) {
  Loop loop;
  loop.add(request(40, 1));  // three passes of up to 16 rows, one launch each
  for (int step = 0; step < 3; ++step) {
    loop.loop.step();
    simulated_now += milliseconds(3);
  }
  EXPECT_EQ(loop.loop.stats().launches, 3u);
  EXPECT_EQ(loop.loop.stats().pass_ms, 3);
  EXPECT_EQ(loop.loop.stats().gaps, 2u);
  EXPECT_EQ(loop.loop.stats().gap_ms, 6);
  simulated_now += std::chrono::hours(1);  // idle
  loop.add(request(1, 1));
  loop.run_to_end();
  EXPECT_EQ(loop.loop.stats().gaps, 2u) << "a rest is not a gap";
}

TEST(PassLoop, SharesTheFullBlocksOfPromptsThatBeginAlike) {
  Loop loop({.context = 512, .kv_blocks = 64, .rows = 64});
  loop.add(request(200, 5));
  loop.run_to_end();
  EXPECT_EQ(loop.loop.stats().kv_blocks_kept, 4u) << "three that are full and the tail";
  const uint64_t before = loop.backend.passes_run();
  loop.add(request(200, 5));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[1].cached_tokens, 199) << "all but the last";
  EXPECT_EQ(loop.backend.passes_run() - before, 5u) << "one pass for the prompt's tail";
  EXPECT_EQ(loop.answers[1].tokens, loop.answers[0].tokens);
}

TEST(PassLoop, FindsAConversationsLastAnswerInTheCache) {
  Loop loop({.context = 512, .kv_blocks = 64, .rows = 64});
  loop.add(request(60, 80));
  loop.run_to_end();
  Request next = request(60, 10);
  next.prompt_ids.insert(next.prompt_ids.end(), loop.answers[0].tokens.begin(), loop.answers[0].tokens.end());
  next.prompt_ids.push_back(7);
  loop.add(next);
  loop.run_to_end();
  EXPECT_EQ(loop.answers[1].cached_tokens, 139) << "of 141 tokens: the last of the answer was not run";
  EXPECT_EQ(loop.answers[1].tokens, loop.tokens_alone(next));
}

TEST(PassLoop, ReadsAPromptOnceThatIsSharedByRequestsAtTheSameTime) {
  Loop loop({.context = 512, .kv_blocks = 64, .rows = 64});
  for (int i = 0; i < 8; ++i) loop.add(request(321, 1));
  loop.run_to_end();
  EXPECT_EQ(loop.loop.stats().cached_tokens, 256u + 6u * 320u)
      << "the second is planned while the first one's last block is read";
}

TEST(PassLoop, ReadsThePromptOfSeveralAnswersOnce) {
  Loop loop({.context = 512, .kv_blocks = 16, .rows = 64});
  Request several = request(200, 5);
  several.n = 6;
  loop.add(several);
  loop.run_to_end();
  EXPECT_EQ(loop.ended.size(), 6u);
  EXPECT_EQ(loop.loop.stats().cached_tokens, 5u * 192u);
  EXPECT_EQ(loop.loop.stats().preemptions, 0u) << "six times three blocks would not fit";
}

TEST(PassLoop, ReadsWholePromptsWithoutPrefixReuse) {
  Loop loop({.context = 512, .kv_blocks = 64, .rows = 64});
  Request alone = request(200, 5);
  alone.reuse_prefix = false;
  for (int i = 0; i < 2; ++i) {
    loop.add(alone);
    loop.run_to_end();
  }
  EXPECT_EQ(loop.loop.stats().cached_tokens, 0u);
  EXPECT_EQ(loop.loop.stats().kv_blocks_kept, 0u);
}

TEST(PassLoop, PreemptsTheYoungestSequenceAndResumesItLater) {
  // Each sequence grows to 6 blocks; the cache has 8.
  Loop loop({.context = 384, .kv_blocks = 8});
  std::vector<Request> requests;
  for (int32_t i = 0; i < 4; ++i) requests.push_back(request(60, 320, 10 + i));
  for (const Request& r : requests) loop.add(r);
  loop.run_to_end();
  EXPECT_GT(loop.loop.stats().preemptions, 0u);
  EXPECT_THAT(loop.ended, ElementsAre(0, 1, 2, 3));
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(loop.answers[i].tokens, loop.tokens_alone(requests[i]));
}

// Contexts that are not whole blocks, and prompts that end within passes of others.
TEST(PassLoop, RunsEachPositionOnceWhereTheCacheHoldsAllContexts) {
  constexpr uint32_t kSequences = 64, kContext = 100, kPrompt = 50, kRows = 256;
  Loop loop({.context = kContext, .kv_blocks = 2 * kSequences, .rows = kRows, .sequences = kSequences});
  for (uint32_t i = 0; i < kSequences; ++i)
    loop.add(request(kPrompt, kContext - kPrompt, 1 + static_cast<int32_t>(i)));
  loop.run_to_end();
  const EngineStats stats = loop.loop.stats();
  EXPECT_EQ(stats.preemptions, 0u);
  EXPECT_EQ(stats.rows, kSequences * (kContext - 1)) << "no logits are wanted of the last token";
  EXPECT_EQ(stats.generated_tokens, kSequences * (kContext - kPrompt));
  const uint32_t reading = (kSequences * kPrompt + kRows - kSequences - 1) / (kRows - kSequences);
  EXPECT_LE(stats.passes, reading + kContext - kPrompt);
}

TEST(PassLoop, ServesBySmallestPriorityThenByArrival) {
  Loop loop({}, 1);
  for (const int priority : {5, 0, 5, -1}) {
    Request r = request(4, 3);
    r.priority = priority;
    loop.add(r);
  }
  loop.run_to_end();
  EXPECT_THAT(loop.ended, ElementsAre(3, 1, 0, 2));
}

TEST(PassLoop, RunsAtMostMaxSequencesTogether) {
  Loop loop({}, 3);
  for (int i = 0; i < 10; ++i) loop.add(request(4, 30));
  loop.run_to_end();
  EXPECT_EQ(loop.backend.most_sequences(), 3u);
}

TEST(PassLoop, RunsAsManyTogetherAsTheLargestStateHas) {
  constexpr uint32_t kSequences = 1024, kMore = 100;
  Loop loop({.context = 128, .kv_blocks = 2 * kSequences, .rows = 2 * kSequences, .sequences = kSequences});
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kSequences + kMore; ++i) {
    Request r = request(1 + i % 3, 4 + static_cast<int>(i % 5), 1 + static_cast<int32_t>(i % 250));
    r.sampling = {.temperature = 1, .seed = i};
    requests.push_back(r);
    loop.add(r);
  }
  loop.run_to_end();
  EXPECT_EQ(loop.backend.most_sequences(), kSequences);
  EXPECT_EQ(loop.loop.stats().preemptions, 0u);
  for (size_t i = 0; i < requests.size(); ++i)
    ASSERT_EQ(loop.answers[i].tokens, loop.tokens_alone(requests[i])) << i;
}

TEST(PassLoop, EndsALaunchWhenAnotherMayJoin) {
  Loop loop;
  loop.add(request(1, 100));
  loop.backend.before_each_pass([&] {
    if (loop.backend.passes_run() == 10) loop.signals->arrived = true;
  });
  loop.loop.step();
  EXPECT_EQ(loop.backend.passes_run(), 1u) << "the prompt is a launch of its own";
  loop.loop.step();
  EXPECT_EQ(loop.answers[0].tokens.size(), 11u);
}

TEST(PassLoop, ContinuesALaunchThatNoRequestCanJoin) {
  Loop loop({}, 1);
  loop.add(request(1, 100));
  loop.signals->arrived = true;
  loop.loop.step();
  loop.loop.step();
  EXPECT_EQ(loop.backend.passes_run(), 1u + 64u) << "one launch for the prompt, and one full launch";
}

TEST(PassLoop, EndsLateRequestsThatRunOrWait) {
  Loop loop({}, 1);
  Request late = request(1, 200);
  late.deadline_ms = 20;
  loop.add(late);
  loop.add(late);
  loop.add(request(1, 5));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].finish, Finish::kDeadline);
  EXPECT_EQ(loop.answers[0].tokens.size(), 20u);
  EXPECT_EQ(loop.answers[1].finish, Finish::kDeadline);
  EXPECT_EQ(loop.answers[1].tokens.size(), 0u);
  EXPECT_EQ(loop.answers[2].finish, Finish::kLength);
}

TEST(PassLoop, EndsTheAnswersThatWaitForAPromptWhenItIsCancelled) {
  Loop loop({.context = 512, .kv_blocks = 64});
  Request several = request(300, 5);
  several.n = 4;
  const size_t index = loop.add(several);
  loop.loop.step();
  EXPECT_EQ(loop.loop.stats().waiting, 3u);
  loop.channels[index]->cancel();
  loop.run_to_end();
  EXPECT_EQ(loop.ended.size(), 4u);
  EXPECT_EQ(loop.answers[index].finish, Finish::kCancelled);
}

TEST(PassLoop, EndsRunningRequestsWithTheBackendsErrorAndServesTheRest) {
  Loop loop({}, 2);
  loop.backend.fail_at_pass(5);
  for (int i = 0; i < 3; ++i) loop.add(request(1, 20));
  EXPECT_TRUE(loop.loop.step());
  EXPECT_TRUE(loop.loop.step());
  loop.backend.fail_at_pass(~uint64_t{0});
  loop.run_to_end();
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(loop.answers[i].finish, Finish::kError);
    EXPECT_EQ(loop.answers[i].error_kind, ErrorKind::kDeviceFault);
  }
  EXPECT_EQ(loop.answers[2].finish, Finish::kLength);
}

TEST(PassLoop, MeasuresTheTimesOfAnAnswer) {
  Loop loop({}, 1);
  loop.add(request(40, 5));
  loop.add(request(17, 5, 2));
  loop.run_to_end();
  EXPECT_EQ(loop.answers[0].timings.queue_ms, 0);
  EXPECT_EQ(loop.answers[0].timings.prompt_ms, 3) << "16 tokens a pass";
  EXPECT_EQ(loop.answers[0].timings.decode_ms, 4);
  EXPECT_EQ(loop.answers[1].timings.queue_ms, 7);
  EXPECT_EQ(loop.answers[1].timings.prompt_ms, 9);
}

// 24 hours of passes of 100 ms each, with arrivals, cancellations and shared prefixes.
TEST(PassLoop, HoldsNoMoreMemoryAfterADayThanAfterAnHour) {
  Loop loop({.context = 192, .kv_blocks = 9, .check = false}, 8);
  loop.backend.before_each_pass([] { simulated_now += milliseconds(100); });
  std::mt19937 random(1);
  const TimePoint begin = simulated_now;
  size_t after_an_hour = 0;
  while (simulated_now < begin + std::chrono::hours(24)) {
    while (loop.loop.stats().waiting < 4) {
      Request r = request(1 + random() % 90, 1 + static_cast<int>(random() % 100),
                          static_cast<int32_t>(random() % 4));
      r.n = 1 + static_cast<int>(random() % 2);
      if (random() % 4 == 0) r.max_tokens = 185 - static_cast<int>(r.prompt_ids.size());
      if (random() % 2 == 0) r.sampling = {.temperature = 1, .seed = random()};
      if (random() % 10 == 0) r.deadline_ms = 500;
      loop.add(r);
    }
    if (random() % 20 == 0) loop.channels[random() % loop.channels.size()]->cancel();
    loop.loop.step();
    if (loop.channels.size() > 1000) {
      loop.run_to_end();
      loop.forget();
    }
    if (after_an_hour == 0 && simulated_now > begin + std::chrono::hours(1))
      after_an_hour = mallinfo2().uordblks;
  }
  loop.run_to_end();
  EXPECT_GT(loop.loop.stats().preemptions, 10u);
  EXPECT_GT(loop.loop.stats().cached_tokens, 100000u);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the day was simulated; mallinfo2() does not count a sanitizer's memory";
#endif
  EXPECT_LT(mallinfo2().uordblks, after_an_hour + 256 * 1024);
}

}  // namespace
}  // namespace serval::testing
