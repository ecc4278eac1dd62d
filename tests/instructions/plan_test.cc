// The plan of attention's items (instructions/planned_attention/plan.h) is correct for any pass:
// check_state() accepts it, and the records' times are nearly equal.
#include "instructions/planned_attention/plan.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "gtest/gtest.h"

#include "instructions/planned_attention/plan_launch.h"
#include "tests/instructions/scene.h"
#include "tests/sample.h"
#include "vm/state/block.h"
#include "vm/state/check_attention.h"

namespace serval::testing {
namespace {

struct Case {
  AttentionPlanShape shape;
  std::unique_ptr<StateBlock> state;
  uint32_t next_row = 0;

  Case(const AttentionPlanShape& s, uint32_t sequences, uint32_t max_context) : shape(s) {
    state = std::make_unique<StateBlock>(StateLimits{
        .vocab = 9, .max_context = max_context, .kv_blocks = 1, .rows = shape.rows, .sequences = sequences});
    state->control.passes_wanted = 1;
  }
  // Adds rows of a sequence up to `position`; the last one continues in later passes.
  void add(uint32_t slot, uint32_t position, uint32_t rows = 1) {
    state->slots[slot].end_position = state->limits.max_context;
    for (uint32_t i = 0; i < rows; ++i) {
      state->rows[next_row++] = {.active = 1,
                                 .wants_logits = i + 1 == rows ? 1U : 0U,
                                 .slot = slot,
                                 .token = 0,
                                 .position = position + 1 - rows + i};
    }
  }
  void plan() {
    plan_attention(
        shape, state->rows, [&](const PassRow& row) { return last_position(*state, row); }, state->attention);
  }
  void check() const {
    Program program;
    program.limits = state->limits;
    program.heads = {.head_dim = 64, .q_heads = shape.kv_heads, .kv_heads = shape.kv_heads};
    program.machine.sms = shape.records;
    program.tensors.push_back({.name = "state.attention", .rows = 1, .cols = 1, .kind = TensorKind::kState});
    program.tensors.push_back({.name = "cache",
                               .rows = uint64_t{64} * shape.kv_heads,
                               .cols = 64,
                               .kind = TensorKind::kKvCache,
                               .head_dim = 64});
    check_attention(program, *state);
    for (uint32_t s = 0; s < state->attention.splits; ++s) {
      const AttentionSplit& split = state->attention.split[s];
      ASSERT_LE(split.first_place + split.rows * split.row_places, shape.places);
    }
  }
  // The longest and the mean time of the records.
  std::pair<uint64_t, uint64_t> times() const {
    const AttentionList& list = state->attention;
    uint64_t most = 0, total = 0;
    for (uint32_t r = 0; r < list.records; ++r) {
      uint64_t time = 0;
      for (uint32_t i = list.begin[r]; i < list.begin[r + 1]; ++i)
        time += predicted_time(shape, state->rows, list.item()[i]);
      most = std::max(most, time);
      total += time;
    }
    return {most, total / list.records};
  }
  double imbalance() const {
    const auto [most, mean] = times();
    return static_cast<double>(most) / static_cast<double>(std::max<uint64_t>(1, mean));
  }
};

Case random_case(Random& random) {
  const uint32_t rows = random.pick<uint32_t>({1, 17, 48, 256, 2048}), sequences = 64;
  Case c({.group_heads = random.between(1, 8),
          .kv_heads = random.pick<uint32_t>({1, 2, 5, 8, 32}),
          .records = random.pick<uint32_t>({1, 3, 132}),
          .places = random.pick<uint32_t>({1, 64, kAttentionPlaces}),
          .rows = rows},
         sequences, 40000);
  c.state->control.passes_wanted = random.pick<uint32_t>({1, 30});
  for (uint32_t slot = 0; slot < sequences && c.next_row < rows; ++slot) {
    c.next_row += random.chance(0.1) ? 1 : 0;  // not active
    if (c.next_row >= rows) break;
    const uint32_t most = rows - c.next_row;
    const uint32_t count = random.chance(0.5) ? 1 : random.between(1, most);
    c.add(slot, random.between(count - 1, random.chance(0.2) ? 39999 : 3000), count);
  }
  return c;
}

// With such a list, a GPU uses kernels without the attention of prompts.
TEST(AttentionPlan, HasSingleRowsWhereAllSequencesGenerate) {
  Case c({.group_heads = 4, .kv_heads = 2, .records = 3, .places = 4096, .rows = 64}, 8, 512);
  for (uint32_t slot = 0; slot < 5; ++slot) c.add(slot, 17 * slot);
  c.plan();
  EXPECT_TRUE(has_single_rows(c.state->attention));
  c.add(5, 30, 4);
  c.plan();
  EXPECT_FALSE(has_single_rows(c.state->attention)) << "a piece of a prompt";
}

TEST(AttentionPlan, HasEveryRowHeadAndLeafOnce) {
  size_t splits = 0;
  for (uint64_t seed = 0; seed < sampled(400); ++seed) {
    Random random(seed);
    Case c = random_case(random);
    c.plan();
    SCOPED_TRACE(seed);
    ASSERT_NO_THROW(c.check());
    splits += c.state->attention.splits;
  }
  EXPECT_GT(splits, sampled(400));
}

TEST(AttentionPlan, DoesNotDependOnWhatTheListHeldBefore) {
  Random random(3);
  Case c = random_case(random);
  c.plan();
  const AttentionList first = c.state->attention;
  c.plan();
  EXPECT_EQ(std::memcmp(&first, &c.state->attention, sizeof first), 0);
}

TEST(AttentionPlan, HasNothingForAPassWithoutRows) {
  Case c({.kv_heads = 2, .records = 4, .rows = 16}, 1, 100);
  c.plan();
  EXPECT_EQ(c.state->attention.items, 0U);
  c.check();
}

constexpr AttentionPlanShape kLarge = {.group_heads = 4, .kv_heads = 8, .records = 132, .rows = 2048};

TEST(AttentionPlan, KeepsAllBusyWithOneLongSequenceAmongShortOnes) {
  Case c(kLarge, 256, 131072);
  c.add(0, 100000);
  for (uint32_t slot = 1; slot <= 200; ++slot) c.add(slot, 100 + 7 * slot);
  c.plan();
  c.check();
  EXPECT_LE(c.imbalance(), 1.1);
}

TEST(AttentionPlan, SharesOneLongSequence) {
  for (const uint32_t tokens : {16384U, 32768U, 100000U}) {
    Case c(kLarge, 256, 131072);
    c.add(0, tokens - 1);
    c.plan();
    c.check();
    // Leaves are not cut, so the longest record exceeds the mean by at most one leaf.
    const auto [most, mean] = c.times();
    EXPECT_LE(most, mean + kPlannedLeafTokens / 64 * 10 + 28) << tokens;
  }
}

TEST(AttentionPlan, BalancesPromptsAndManySequences) {
  for (const uint32_t tokens : {2048U, 8192U, 32768U}) {
    Case c(kLarge, 256, 131072);
    c.add(0, tokens - 1, 2048);
    c.plan();
    c.check();
    std::printf("[ figures  ] 2048 rows up to %u: imbalance %.3f, %u splits\n", tokens, c.imbalance(),
                c.state->attention.splits);
    EXPECT_LE(c.imbalance(), 1.1) << tokens;
  }
  for (const uint32_t sequences : {64U, 200U, 256U}) {
    Case c(kLarge, 256, 131072);
    for (uint32_t slot = 0; slot < sequences; ++slot) c.add(slot, 500 + 1000 * slot / sequences);
    c.plan();
    c.check();
    std::printf("[ figures  ] %u sequences: imbalance %.3f\n", sequences, c.imbalance());
    EXPECT_LE(c.imbalance(), 1.15) << sequences;
  }
}

// A sequence that grows during a launch has places for the leaves that it will reach.
TEST(AttentionPlan, LeavesRoomToGrow) {
  Case c(kLarge, 256, 131072);
  c.state->control.passes_wanted = 30;
  c.add(0, 50 * kPlannedLeafTokens - 10);
  c.plan();
  c.check();
  ASSERT_GT(c.state->attention.splits, 0U);
  c.state->rows[0].position += 29;
  c.state->control.passes_wanted = 1;
  c.check();
}

}  // namespace
}  // namespace serval::testing
