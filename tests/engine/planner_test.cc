#include "engine/runtime/planner.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(Planner, GivesEverySequenceThatGeneratesARowBeforeAnyPrompt) {
  const PassPlan plan =
      plan_pass(std::vector<SequenceProgress>{{0, 100, true}, {7, 5, true}, {9, 9, true}}, 16);
  ASSERT_EQ(plan.rows.size(), 16u);
  EXPECT_EQ(plan.rows[0].sequence, 1u);
  EXPECT_EQ(plan.rows[0].position, 7u);
  EXPECT_EQ(plan.rows[1].sequence, 2u);
  EXPECT_EQ(plan.rows[2].sequence, 0u);
  EXPECT_EQ(plan.rows[15].position, 13u);
  EXPECT_FALSE(plan.prompts_complete);
}

TEST(Planner, LetsSeveralPromptsShareAPassInOrderOfArrival) {
  const PassPlan plan =
      plan_pass(std::vector<SequenceProgress>{{0, 3, true}, {4, 8, true}, {0, 20, true}}, 16);
  ASSERT_EQ(plan.rows.size(), 16u);
  EXPECT_EQ(plan.rows[2].sequence, 0u);
  EXPECT_TRUE(plan.rows[2].wants_logits);
  EXPECT_EQ(plan.rows[3].position, 4u);
  EXPECT_EQ(plan.rows[7].sequence, 2u);
  EXPECT_EQ(plan.rows[15].position, 8u);
}

TEST(Planner, SkipsTheLmHeadWhereNothingIsToBeSampled) {
  const PassPlan plan = plan_pass(std::vector<SequenceProgress>{{0, 3, false}}, 16);
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_TRUE(plan.prompts_complete);
  EXPECT_FALSE(plan.rows[2].wants_logits);
}

TEST(Planner, SaysThatPromptsAreCompleteOnlyWhenAllRowsFit) {
  EXPECT_TRUE(plan_pass(std::vector<SequenceProgress>{{0, 16, true}}, 16).prompts_complete);
  EXPECT_FALSE(plan_pass(std::vector<SequenceProgress>{{0, 17, true}}, 16).prompts_complete);
}

void expect_consecutive_positions(const PassPlan& plan, const std::vector<SequenceProgress>& sequences) {
  for (uint32_t s = 0; s < sequences.size(); ++s) {
    uint32_t expected = sequences[s].computed;
    for (const PlannedRow& row : plan.rows) {
      if (row.sequence != s) continue;
      EXPECT_EQ(row.position, expected);
      const bool samples = expected + 1 >= sequences[s].prompt_length && sequences[s].generates;
      EXPECT_EQ(row.wants_logits, samples);
      ++expected;
    }
    EXPECT_LE(expected, std::max(sequences[s].prompt_length, sequences[s].computed + 1));
  }
}

TEST(Planner, FillsThePassAndLeavesNobodyOut) {
  constexpr uint32_t kClasses[] = {16, 1, 48, 256};
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    const uint32_t max_rows = kClasses[round % std::size(kClasses)];
    std::vector<SequenceProgress> sequences(random() % (max_rows + 1));
    uint32_t wanted = 0;
    for (SequenceProgress& s : sequences) {
      s.prompt_length = 1 + random() % 40;
      s.computed = random() % 60;
      s.generates = s.computed >= s.prompt_length || random() % 4 != 0;
      wanted += s.computed >= s.prompt_length ? 1 : s.prompt_length - s.computed;
    }
    const PassPlan plan = plan_pass(sequences, max_rows);
    EXPECT_EQ(plan.rows.size(), std::min(wanted, max_rows));
    EXPECT_EQ(plan.prompts_complete, wanted <= max_rows);
    for (uint32_t s = 0; s < sequences.size(); ++s) {
      if (sequences[s].computed < sequences[s].prompt_length) continue;
      EXPECT_EQ(std::count_if(plan.rows.begin(), plan.rows.end(),
                              [&](const PlannedRow& row) { return row.sequence == s; }),
                1);
    }
    expect_consecutive_positions(plan, sequences);
  }
}

}  // namespace
}  // namespace serval
