#include "engine/core/planner.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

constexpr PlannerLimits kSixteen{.max_rows = 16, .max_sequences = 16, .max_passes = 64};
constexpr uint32_t kManyBlocks = 1000;

// A sequence that holds the blocks of its tokens. It reads if more than its last token is not computed yet.
SequenceView sequence(uint32_t computed, uint32_t length, uint32_t end = 400) {
  return {computed, length, end, blocks_for_tokens(length), true, length - computed > 1 ? length : computed};
}

PassPlan plan_of(const std::vector<SequenceView>& running, uint32_t blocks = kManyBlocks) {
  return plan({running, blocks}, kSixteen);
}

TEST(Planner, GivesEverySequenceThatGeneratesARowBeforeAnyPrompt) {
  const PassPlan plan = plan_of({sequence(0, 100), sequence(7, 8), sequence(9, 10)});
  ASSERT_EQ(plan.rows.size(), 16u);
  EXPECT_EQ(plan.rows[0].sequence, 1u);
  EXPECT_EQ(plan.rows[0].position, 7u);
  EXPECT_TRUE(plan.rows[0].wants_logits());
  EXPECT_EQ(plan.rows[1].sequence, 2u);
  EXPECT_EQ(plan.rows[2].sequence, 0u);
  EXPECT_EQ(plan.rows[15].position, 13u);
  EXPECT_FALSE(plan.rows[15].wants_logits());
  EXPECT_EQ(plan.passes, 1u);
}

TEST(Planner, LetsSeveralPromptsShareAPassInTheOrderOfService) {
  const PassPlan plan = plan_of({sequence(0, 3), sequence(4, 8), sequence(0, 20)});
  ASSERT_EQ(plan.rows.size(), 16u);
  EXPECT_EQ(plan.rows[2].sequence, 0u);
  EXPECT_TRUE(plan.rows[2].wants_logits());
  EXPECT_EQ(plan.rows[3].position, 4u);
  EXPECT_EQ(plan.rows[7].sequence, 2u);
  EXPECT_EQ(plan.rows[15].position, 8u);
}

TEST(Planner, SkipsTheLmHeadIfNothingIsSampled) {
  SequenceView only_read = sequence(0, 3);
  only_read.generates = false;
  const PassPlan plan = plan_of({only_read});
  ASSERT_EQ(plan.rows.size(), 3u);
  EXPECT_FALSE(plan.rows[2].wants_logits());
}

TEST(Planner, EndsAPassWhereNoMoreRowsMayWantLogits) {
  SequenceView scored = sequence(0, 30);
  scored.score_begin = 4;
  scored.score_end = 29;
  const SequenceView other = sequence(0, 30);
  const std::vector<SequenceView> running = {scored, other, sequence(7, 8)};
  PlannerLimits limits = kSixteen;
  limits.max_logit_rows = 3;
  const PassPlan cut = plan({running, kManyBlocks}, limits);
  ASSERT_EQ(cut.rows.size(), 16u);
  EXPECT_TRUE(cut.rows[0].draws);
  EXPECT_FALSE(cut.rows[4].wants_logits());
  EXPECT_TRUE(cut.rows[5].scores && cut.rows[6].scores);
  EXPECT_EQ(cut.rows[6].position, 5u);
  EXPECT_EQ(cut.rows[7].sequence, 1u) << "rows that want none still fill the pass";
}

// A pass after a prompt's end may need another program.
TEST(Planner, RunsSeveralPassesOnlyOnceAllPromptsAreRead) {
  EXPECT_EQ(plan_of({sequence(5, 6), sequence(16, 17)}).passes, 64u);
  EXPECT_EQ(plan_of({sequence(5, 6), sequence(0, 2)}).passes, 1u);
  EXPECT_EQ(plan_of({sequence(0, 17)}).passes, 1u);
}

TEST(Planner, SaysWhetherAPassReadsPrompts) {
  EXPECT_FALSE(plan_of({sequence(5, 6), sequence(16, 17)}).reads_prompts);
  EXPECT_TRUE(plan_of({sequence(5, 6), sequence(0, 2)}).reads_prompts);
}

// So the arithmetic of a prompt's positions does not depend on how it was cut.
TEST(Planner, ReadsTheLastTokenOfAPromptAsOneOfThePrompt) {
  SequenceView last = sequence(16, 17);
  last.prompt = 17;
  const PassPlan plan = plan_of({last, sequence(5, 6)});
  EXPECT_TRUE(plan.reads_prompts);
  EXPECT_EQ(plan.passes, 1u);
  EXPECT_EQ(plan.rows[0].sequence, 1u);
  EXPECT_TRUE(plan.rows[1].wants_logits());
}

TEST(Planner, RunsNoMorePassesThanThereAreBlocksFor) {
  // 30 passes need one more block for each of the two; 40 passes need two.
  const std::vector<SequenceView> running = {sequence(62, 63), sequence(33, 34)};
  EXPECT_EQ(plan_of(running, 2).passes, 64u);
  EXPECT_EQ(plan_of(running, 1).passes, 16u);
  EXPECT_EQ(plan_of(running, 0).passes, 2u);
}

TEST(Planner, ReservesNoBlocksAfterTheEndOfASequence) {
  EXPECT_EQ(plan_of({sequence(60, 61, 64)}, 0).passes, 64u);
}

TEST(Planner, PreemptsTheLastSequenceWhenBlocksRunOut) {
  const std::vector<SequenceView> running = {{64, 65, 400, 1, true, 64}, sequence(10, 11), sequence(0, 100)};
  const PassPlan plan = plan_of(running, 0);
  EXPECT_EQ(plan.give_back, 2u);
  EXPECT_TRUE(plan.rows.empty());
  EXPECT_EQ(plan_of({running.begin(), running.begin() + 2}, 1).give_back, std::nullopt);
}

TEST(Planner, AdmitsASequenceIfABlockForEachRemains) {
  constexpr PlannerLimits limits{.max_rows = 16, .max_sequences = 3, .max_passes = 64};
  EXPECT_TRUE(may_join(0, 10, limits, 10));
  EXPECT_TRUE(may_join(2, 10, limits, 7));
  EXPECT_FALSE(may_join(2, 10, limits, 8));
  EXPECT_FALSE(may_join(3, 1000, limits, 1));
}

// A workload with a counter of blocks. Sequences of three priorities arrive in any order, are served in the
// order of may_join() and plan(), and must all reach their ends.
class Workload {
 public:
  explicit Workload(uint32_t seed) : random_(seed) {
    constexpr uint32_t kRows[] = {1, 16, 48, 256};
    limits_.max_rows = kRows[seed % std::size(kRows)];
    limits_.max_sequences = 1 + random_() % std::min(limits_.max_rows, 40U);
    limits_.max_passes = 1 + random_() % 64;
    limits_.max_logit_rows = limits_.max_sequences + random_() % 20;
    available_ = blocks_for_tokens(kContext) + random_() % 20;
    all_ = available_;
    for (uint32_t i = 0; i < 60; ++i) waiting_.push_back(arrive(i));
    std::ranges::sort(waiting_, served_before);
  }

  void run() {
    for (uint32_t launch = 0; !waiting_.empty() || !running_.empty(); ++launch) {
      ASSERT_LT(launch, 100000u) << "it does not end";
      admit();
      step();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(available_, all_);
  }

 private:
  static constexpr uint32_t kContext = 600;
  struct Job {
    SequenceView view;
    int priority;
    uint32_t arrival;
  };
  static bool served_before(const Job& a, const Job& b) {
    return std::pair(a.priority, a.arrival) < std::pair(b.priority, b.arrival);
  }

  Job arrive(uint32_t arrival) {
    SequenceView view;
    view.length = view.prompt = 1 + random_() % 400;
    view.generates = random_() % 8 != 0;
    view.end = view.length + (view.generates ? random_() % (kContext - view.length) : 0);
    if (random_() % 3 == 0) {
      view.score_end = view.length - 1;
      view.score_begin = random_() % view.length;
    }
    return {view, static_cast<int>(random_() % 3), arrival};
  }

  void admit() {
    while (!waiting_.empty()) {
      Job& job = waiting_.front();
      const uint32_t blocks = blocks_for_tokens(job.view.length);
      if (!may_join(running_.size(), available_, limits_, blocks)) break;
      ASSERT_LE(blocks, available_);
      available_ -= blocks;
      job.view.blocks = blocks;
      running_.insert(std::ranges::upper_bound(running_, job, served_before), job);
      waiting_.erase(waiting_.begin());
    }
    ASSERT_FALSE(running_.empty()) << "a single sequence may always join";
  }

  std::vector<SequenceView> views() const {
    std::vector<SequenceView> views;
    for (const Job& job : running_) views.push_back(job.view);
    return views;
  }

  void step() {
    std::vector<SequenceView> now = views();
    PassPlan pass_plan = plan({now, available_}, limits_);
    while (pass_plan.give_back) {
      ASSERT_EQ(*pass_plan.give_back, running_.size() - 1) << "the last in the order of service";
      ASSERT_GT(running_.size(), 1u) << "never the first";
      Job job = running_.back();
      running_.pop_back();
      available_ += job.view.blocks;
      job.view.blocks = job.view.computed = 0;
      job.view.prompt = job.view.length;
      waiting_.insert(std::ranges::upper_bound(waiting_, job, served_before), job);
      now = views();
      pass_plan = plan({now, available_}, limits_);
    }
    take_blocks(pass_plan.passes);
    check_rows(pass_plan);
    advance(pass_plan);
  }

  void take_blocks(uint32_t passes) {
    for (Job& job : running_) {
      const uint32_t wanted = std::max(job.view.blocks, blocks_for_launch(job.view, passes));
      ASSERT_LE(wanted - job.view.blocks, available_) << "the launch has its blocks";
      available_ -= wanted - job.view.blocks;
      job.view.blocks = wanted;
    }
  }

  void check_rows(const PassPlan& pass_plan) {
    ASSERT_FALSE(pass_plan.rows.empty());
    ASSERT_LE(pass_plan.rows.size(), limits_.max_rows);
    ASSERT_LE(std::ranges::count_if(pass_plan.rows, &PlannedRow::wants_logits), limits_.max_logit_rows);
    ASSERT_TRUE(pass_plan.passes == 1 || !pass_plan.reads_prompts);
    std::vector<uint32_t> rows(running_.size(), 0);
    for (const PlannedRow& row : pass_plan.rows) {
      const SequenceView& view = running_[row.sequence].view;
      ASSERT_EQ(row.position, view.computed + rows[row.sequence]++);
      ASSERT_LT(row.position, view.length);
      ASSERT_EQ(row.draws, row.position + 1 == view.length && view.generates);
      ASSERT_EQ(row.scores, row.position >= view.score_begin && row.position < view.score_end);
    }
    bool first_reader = true;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].view.computed >= running_[i].view.prompt) {
        ASSERT_EQ(rows[i], 1u) << "every sequence that generates moves in every pass";
      } else if (std::exchange(first_reader, false)) {
        ASSERT_GE(rows[i], 1u) << "and the first that reads";
      }
    }
  }

  std::vector<std::optional<SequenceView>> views_after(const PassPlan& pass_plan, uint32_t passes) const {
    std::vector<uint32_t> rows(running_.size(), 0);
    for (const PlannedRow& row : pass_plan.rows) ++rows[row.sequence];
    std::vector<std::optional<SequenceView>> after;
    for (size_t i = 0; i < running_.size(); ++i)
      after.push_back(after_launch(running_[i].view, rows[i], passes));
    return after;
  }

  // Some launches end early.
  void advance(const PassPlan& pass_plan) {
    const uint32_t passes = 1 + random_() % pass_plan.passes;
    const std::vector<std::optional<SequenceView>> foreseen = views_after(pass_plan, passes);
    for (const PlannedRow& row : pass_plan.rows) ++running_[row.sequence].view.computed;
    for (const PlannedRow& row : pass_plan.rows) {
      SequenceView& view = running_[row.sequence].view;
      if (!row.draws) continue;
      const uint32_t made = std::min(passes, view.end + 1 - view.length);
      view.length += made;
      view.computed += made - 1;
      ASSERT_LE(blocks_for_tokens(view.computed), view.blocks);
    }
    for (size_t i = 0; i < running_.size(); ++i) {
      Job& job = running_[i];
      const SequenceView& view = job.view;
      const bool goes_on = view.generates ? view.length <= view.end : view.computed < view.length;
      ASSERT_EQ(goes_on, foreseen[i].has_value());
      if (goes_on) {
        ASSERT_EQ(std::pair(view.computed, view.length),
                  std::pair(foreseen[i]->computed, foreseen[i]->length));
        continue;
      }
      available_ += view.blocks;
      job.arrival = kGone;
    }
    std::erase_if(running_, [](const Job& job) { return job.arrival == kGone; });
  }

  static constexpr uint32_t kGone = ~0U;
  std::mt19937 random_;
  PlannerLimits limits_;
  uint32_t available_ = 0, all_ = 0;
  std::vector<Job> waiting_, running_;
};

TEST(Planner, PredictsASequencesStateAfterALaunch) {
  SequenceView prompt = sequence(0, 20, 22);
  EXPECT_EQ(after_launch(prompt, 16, 1)->computed, 16u);
  EXPECT_EQ(after_launch(prompt, 16, 1)->length, 20u);
  prompt.computed = 16;
  EXPECT_EQ(after_launch(prompt, 4, 1)->computed, 20u);
  EXPECT_EQ(after_launch(prompt, 4, 1)->length, 21u) << "the last one is not known yet";
  EXPECT_EQ(after_launch(sequence(20, 21, 22), 1, 1)->length, 22u);
  EXPECT_EQ(after_launch(sequence(20, 21, 22), 1, 2), std::nullopt) << "the token at its end is the last";
  prompt.generates = false;
  EXPECT_EQ(after_launch(prompt, 4, 1), std::nullopt);
}

SequenceView drafting(uint32_t computed, uint32_t length, uint32_t drafts) {
  SequenceView view = sequence(computed, length);
  view.drafts = drafts;
  return view;
}
PlannerLimits with_drafts(uint32_t rows) {
  PlannerLimits limits = kSixteen;
  limits.max_draft_rows = rows;
  return limits;
}

TEST(Planner, GivesEachSequenceRowsForDraftsAfterItsOwn) {
  const std::vector<SequenceView> running = {drafting(7, 8, 3), sequence(20, 21), drafting(9, 10, 15)};
  const PassPlan plan = serval::plan({running, kManyBlocks}, with_drafts(16));
  EXPECT_EQ(plan.drafts, 6u) << "13 rows are left for two";
  ASSERT_EQ(plan.rows.size(), 3u + 3 + 6);
  EXPECT_EQ(plan.rows[0].drafts, 3u);
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(plan.rows[i].is_draft && plan.rows[i].wants_logits());
    EXPECT_EQ(plan.rows[i].sequence, 0u);
    EXPECT_EQ(plan.rows[i].position, 7 + i);
  }
  EXPECT_EQ(plan.rows[4].drafts, 0u);
  EXPECT_EQ(plan.rows[5].drafts, 6u);
}

// Nor may drafts make a pass so large that it is computed in another arithmetic class.
TEST(Planner, GivesNoRowsForDraftsBesidePromptsOrWithoutRoom) {
  const auto drafts = [](const std::vector<SequenceView>& running, uint32_t rows) {
    return serval::plan({running, kManyBlocks}, with_drafts(rows)).drafts;
  };
  EXPECT_EQ(drafts({drafting(7, 8, 3)}, 16), 3u + 12) << "its own limit comes later";
  EXPECT_EQ(drafts({drafting(7, 8, 3), drafting(0, 5, 3)}, 16), 0u);
  EXPECT_EQ(drafts(std::vector<SequenceView>(9, drafting(7, 8, 3)), 16), 0u);
  EXPECT_EQ(drafts(std::vector<SequenceView>(8, drafting(7, 8, 3)), 16), 1u);
  EXPECT_EQ(drafts({drafting(7, 8, 3)}, 0), 0u);
}

TEST(Planner, HasBlocksForAllDrafts) {
  EXPECT_EQ(blocks_for_launch(drafting(7, 8, 3), 64, 3), blocks_for_tokens(7 + 64 * 4));
  EXPECT_EQ(blocks_for_launch(drafting(7, 8, 1), 64, 3), blocks_for_tokens(7 + 64 * 2));
  EXPECT_EQ(blocks_for_launch(drafting(7, 8, 15), 64, 15), blocks_for_tokens(400)) << "the sequence's end";
  const std::vector<SequenceView> running = {drafting(62, 63, 3)};
  const PassPlan fewer = serval::plan({running, 1}, with_drafts(16));
  EXPECT_EQ(fewer.passes, 16u) << "62 + 16 × 4 tokens fit two blocks";
  const PassPlan none = serval::plan({running, 0}, with_drafts(16));
  EXPECT_EQ(none.passes, 1u);
  EXPECT_EQ(none.drafts, 0u) << "only two more tokens fit";
}

TEST(Planner, FinishesEveryWorkload) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Workload(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace serval
