#include "vm/state/check.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kVocab = 100, kContext = 200, kKvBlocks = 40;

// A valid state: row 0 is slot 0 at position 70, row 3 is slot 2 at position 199.
struct Case {
  Program program;
  std::unique_ptr<StateBlock> state;

  explicit Case(const StateLimits& limits = {kVocab, kContext, kKvBlocks}) {
    program.limits = limits;
    state = std::make_unique<StateBlock>(limits);
    std::ranges::fill(state->block_table, -1);
    state->control.passes_wanted = 1;
    fill(0, 0, 70, {5, 6, 7, 8});
    fill(3, 2, 199, {0, 39, 20, 21});
  }
  void fill(size_t row, uint32_t slot, uint32_t position, const std::vector<int32_t>& blocks_of_slot) {
    state->rows[row] = {.active = 1, .wants_logits = 1, .slot = slot, .token = 99, .position = position};
    state->slots[slot].end_position = kContext;
    std::ranges::copy(blocks_of_slot, state->blocks_of(slot).begin());
  }
  PassRow& row(size_t r) { return state->rows[r]; }
  int32_t& block(size_t entry) { return state->block_table[entry]; }
};

std::string refusal(const std::function<void(Case&)>& damage,
                    const StateLimits& limits = {kVocab, kContext, kKvBlocks}) {
  Case c(limits);
  damage(c);
  try {
    check_state(c.program, *c.state);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    return e.what();
  }
  return "accepted";
}

// Masks are given while a launch runs, so a launch may have several passes even if a row waits for masks.
TEST(CheckState, LeavesMasksToTheLaunch) {
  const auto masked = [](Case& c) {
    c.state->slots[0].masked = 1;
    c.state->slots[0].extras = extras_of(c.state->slots[0]);
    c.state->control.passes_wanted = 2;
    c.row(3) = {};
  };
  EXPECT_EQ(refusal(masked), "accepted");
}

TEST(CheckState, AcceptsASoundState) {
  EXPECT_EQ(refusal([](Case&) {}), "accepted");
}

// Rows 0 and 1 become a sequence's row and its draft.
void draft(Case& c) {
  SequenceSlot& slot = c.state->slots[c.row(0).slot];
  slot.drafts = {.most = 3, .least = 1, .ngram_min = 1, .ngram_max = 4};
  slot.extras = extras_of(slot);
  slot.history_length = c.row(0).position + 1;
  c.row(0).drafts = 1;
  c.row(1) = c.row(0);
  c.row(1).drafts = 0;
  ++c.row(1).position;
}

TEST(CheckState, WantsDraftsInRowsAfterTheirSequencesOwn) {
  const auto with = [](const std::function<void(Case&)>& damage) {
    return refusal([&](Case& c) {
      draft(c);
      damage(c);
    });
  };
  EXPECT_EQ(with([](Case&) {}), "accepted");
  EXPECT_EQ(with([](Case& c) { c.row(1) = {}; }), "accepted") << "a row for a draft, without one";
  EXPECT_THAT(with([](Case& c) { c.row(0).drafts = 4; }), HasSubstr("row 0: drafts: 4; limit: 3"));
  const auto made_by_host = [](Case& c) {
    SequenceSlot& slot = c.state->slots[c.row(0).slot];
    slot.drafts = {};
    slot.extras = extras_of(slot);
  };
  EXPECT_EQ(with(made_by_host), "accepted");
  EXPECT_THAT(with([&](Case& c) {
                made_by_host(c);
                c.row(0).drafts = kMaxDrafts + 1;
              }),
              HasSubstr("row 0: drafts: 16; limit: 15"));
  EXPECT_THAT(with([](Case& c) { ++c.row(1).position; }), HasSubstr("a draft of row 0"));
  EXPECT_THAT(with([](Case& c) { c.row(1).wants_logits = 0; }), HasSubstr("a draft of row 0"));
  EXPECT_THAT(with([](Case& c) { c.row(0).wants_logits = 0; }), HasSubstr("draws no token"));
  EXPECT_THAT(with([](Case& c) {
                SequenceSlot& slot = c.state->slots[c.row(0).slot];
                slot.presence_penalty = 1;
                slot.extras = extras_of(slot);
              }),
              HasSubstr("row 0: drafts; a slot with penalties"));
}

TEST(CheckState, WantsBlocksForAllDrafts) {
  const auto passes = [](uint32_t count) {
    return refusal([&](Case& c) {
      draft(c);
      c.state->slots[c.row(0).slot].end_position = kContext;
      c.state->control.passes_wanted = count;
      for (int32_t& block : c.state->blocks_of(c.row(0).slot).subspan(c.row(0).position / kKvBlockTokens + 1))
        block = -1;
    });
  };
  EXPECT_EQ(passes(1), "accepted");
  EXPECT_THAT(passes(kKvBlockTokens / 2 + 1), HasSubstr("KV block: -1"));
}

TEST(CheckState, LooksAtActiveRowsOnly) {
  EXPECT_EQ(refusal([](Case& c) {
              c.row(5) = {.active = 0, .wants_logits = 1, .slot = 77, .token = -4, .position = 1 << 30};
              c.state->slots[9].end_position = 1 << 30;
            }),
            "accepted");
}

TEST(CheckState, LimitsThePasses) {
  EXPECT_THAT(refusal([](Case& c) { c.state->control.passes_wanted = 0; }), HasSubstr("passes: 0"));
  EXPECT_THAT(refusal([](Case& c) { c.state->control.passes_wanted = kMostLaunchPasses + 1; }),
              HasSubstr("passes: 4097"));
  EXPECT_EQ(refusal([](Case& c) { c.state->control.passes_wanted = kMostLaunchPasses; }), "accepted");
}

TEST(CheckState, WantsABlockOfTheProgramsSequencesAndContext) {
  EXPECT_THAT(refusal([](Case& c) { c.program.limits.max_context = 300; }),
              HasSubstr("block table: 4 blocks of a sequence, the program has 5"));
  EXPECT_THAT(refusal([](Case& c) { c.program.limits.sequences = 17; }),
              HasSubstr("16 sequences, the program has 17"));
  EXPECT_THAT(refusal([](Case& c) { c.program.limits.rows = 17; }), HasSubstr("16 rows, the program has 17"));
}

// Programs of several row classes share the state block of the program with the most rows.
TEST(CheckState, LetsAProgramOfFewerRowsUseTheFirst) {
  const auto with_rows = [](uint32_t rows) { return [=](Case& c) { c.program.limits.rows = rows; }; };
  EXPECT_EQ(refusal(with_rows(4)), "accepted");
  EXPECT_THAT(refusal(with_rows(3)), HasSubstr("row 3: active, the program has 3 rows"));
}

TEST(CheckState, LimitsThePassesOfManyRows) {
  const StateLimits many{kVocab, kContext, kKvBlocks, 256, 16};
  EXPECT_THAT(refusal([](Case& c) { c.state->control.passes_wanted = 257; }, many),
              HasSubstr("passes: 257; limit: 1 to 256"));
  EXPECT_EQ(refusal([](Case& c) { c.state->control.passes_wanted = 256; }, many), "accepted");
}

TEST(CheckState, FindsTheSamePlaceAmongManyRows) {
  constexpr uint32_t kBlocksOfSlot = 4;
  const StateLimits most{kVocab, kContext, kKvBlocks + 64 * kBlocksOfSlot, kLargestRows, 64};
  const auto fill = [](Case& c) {
    for (uint32_t r = 4; r < kLargestRows; ++r) {
      c.row(r) = {.active = 1, .wants_logits = 0, .slot = 3 + r / 160, .token = 1, .position = r % 160};
      c.state->slots[c.row(r).slot].end_position = kContext;
      const uint32_t slot = c.row(r).slot;
      for (uint32_t b = 0; b < kBlocksOfSlot; ++b)
        c.state->blocks_of(slot)[b] = static_cast<int32_t>(kKvBlocks + slot * kBlocksOfSlot + b);
    }
  };
  EXPECT_EQ(refusal(fill, most), "accepted");
  EXPECT_THAT(refusal(
                  [&](Case& c) {
                    fill(c);
                    c.row(8000).slot = c.row(900).slot;
                    c.row(8000).position = c.row(900).position;
                  },
                  most),
              HasSubstr("rows 900 and 8000: same slot 8 and position 100"));
}

TEST(CheckState, TwoSequencesWriteDifferentTokens) {
  EXPECT_THAT(refusal([](Case& c) {
                c.row(3).position = 70;
                c.state->blocks_of(2)[1] = 6;
              }),
              HasSubstr("rows 0 and 3: same token 6 of KV block 6"));
}

// Compared with a comparison of all pairs.
TEST(CheckState, FindsWhatTwoRowsShareWhateverTheirOrder) {
  uint32_t refused = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    Case c;
    for (uint32_t slot = 0; slot < 4; ++slot) {
      for (uint32_t b = 0; b < 4; ++b) c.state->blocks_of(slot)[b] = static_cast<int32_t>(below(kKvBlocks));
      c.state->slots[slot].end_position = kContext;
    }
    std::map<uint32_t, uint32_t> rows_of_place;
    for (uint32_t r = 0; r < kDefaultRows; ++r) {
      const uint32_t slot = below(4), position = below(kContext);
      c.row(r) = {.active = below(4) != 0 ? 1U : 0U,
                  .wants_logits = 0,
                  .slot = slot,
                  .token = 1,
                  .position = position};
      const auto block = static_cast<uint32_t>(c.state->blocks_of(slot)[position / kKvBlockTokens]);
      if (c.row(r).active != 0) ++rows_of_place[block * kKvBlockTokens + position % kKvBlockTokens];
    }
    const bool apart =
        std::ranges::all_of(rows_of_place, [](const auto& place) { return place.second == 1; });
    if (apart) {
      EXPECT_NO_THROW(check_state(c.program, *c.state)) << seed;
    } else {
      EXPECT_THROW(check_state(c.program, *c.state), Error) << seed;
      ++refused;
    }
  }
  EXPECT_GT(refused, 20U);
  EXPECT_LT(refused, 480U);
}

TEST(CheckState, OnlyTheFirstRowsWantLogits) {
  const StateLimits many{kVocab, kContext, kKvBlocks, 2048, 16};
  const auto at = [](uint32_t r) {
    return [r](Case& c) {
      c.row(r) = c.row(3);
      c.row(3) = {};
    };
  };
  EXPECT_EQ(refusal(at(1023), many), "accepted");
  EXPECT_THAT(refusal(at(1024), many), HasSubstr("row 1024: wants logits; only the first 1024 rows may"));
}

TEST(CheckState, ATargetIsATokenOfARowThatWantsLogitsInALaunchOfOnePass) {
  EXPECT_EQ(refusal([](Case& c) { c.row(3).target = kVocab - 1; }), "accepted");
  EXPECT_THAT(refusal([](Case& c) { c.row(3).target = kVocab; }), HasSubstr("row 3: target: 100; limit: 99"));
  EXPECT_THAT(refusal([](Case& c) { c.row(3).target = -2; }), HasSubstr("row 3: target: -2"));
  EXPECT_THAT(refusal([](Case& c) {
                c.row(3).target = 5;
                c.row(3).wants_logits = 0;
              }),
              HasSubstr("row 3: has a target and wants no logits"));
  EXPECT_THAT(refusal([](Case& c) {
                c.row(0).target = 5;
                c.row(3) = {};
                c.state->control.passes_wanted = 2;
              }),
              HasSubstr("row 0: has a target; 2 passes; limit: 1"));
}

TEST(CheckState, OnlyRowsThatWantLogitsAddHiddenStatesInProgramsThatPool) {
  StateLimits pools = {kVocab, kContext, kKvBlocks};
  pools.pooled_cols = 16;
  const auto adds = [](Case& c) { c.row(3).adds = 1; };
  EXPECT_EQ(refusal(adds, pools), "accepted");
  EXPECT_THAT(refusal(adds), HasSubstr("row 3: adds its hidden state; the program generates"));
  EXPECT_THAT(refusal([](Case& c) { c.row(3).adds = 2; }, pools), HasSubstr("row 3: adds: 2; limit: 1"));
  EXPECT_THAT(refusal(
                  [](Case& c) {
                    c.row(3).adds = 1;
                    c.row(3).wants_logits = 0;
                  },
                  pools),
              HasSubstr("row 3: adds its hidden state and wants no logits"));
}

TEST(CheckState, LimitsTheSlot) {
  EXPECT_THAT(refusal([](Case& c) { c.row(3).slot = kDefaultSequences; }),
              HasSubstr("row 3: slot: 16; limit: 15"));
}

TEST(CheckState, LimitsTheToken) {
  EXPECT_THAT(refusal([](Case& c) { c.row(0).token = kVocab; }), HasSubstr("row 0: token: 100; limit: 99"));
  EXPECT_THAT(refusal([](Case& c) { c.row(0).token = -1; }), HasSubstr("row 0: token: -1"));
}

TEST(CheckState, LimitsThePosition) {
  EXPECT_THAT(refusal([](Case& c) { c.row(3).position = kContext; }),
              HasSubstr("row 3: position: 200; limit: 199"));
  EXPECT_THAT(refusal([](Case& c) { c.row(3).position = std::numeric_limits<uint32_t>::max(); }),
              HasSubstr("position"));
}

TEST(CheckState, LimitsTheEndPosition) {
  EXPECT_THAT(refusal([](Case& c) { c.state->slots[2].end_position = kContext + 1; }),
              HasSubstr("end_position: 201; limit: 200"));
}

TEST(CheckState, LimitsTheStopTokens) {
  EXPECT_THAT(refusal([](Case& c) { c.state->slots[0].num_stop_tokens = kMaxStopTokens + 1; }),
              HasSubstr("num_stop_tokens: 17; limit: 16"));
}

TEST(CheckState, WantsKvBlocksUpToThePosition) {
  EXPECT_THAT(refusal([](Case& c) { c.block(1) = kKvBlocks; }), HasSubstr("KV block: 40; limit: 39"));
  EXPECT_THAT(refusal([](Case& c) { c.block(0) = -1; }), HasSubstr("KV block: -1"));
  EXPECT_EQ(refusal([](Case& c) { c.block(2) = c.block(3) = -1; }), "accepted")
      << "position 70 needs two blocks";
}

// In a launch of many passes a sampling row moves on: it must not reach a block that does not exist.
TEST(CheckState, WantsKvBlocksForEveryPositionTheLaunchMayReach) {
  const auto launch = [](uint32_t passes, uint32_t end_position) {
    return [=](Case& c) {
      c.block(2) = c.block(3) = -1;
      c.state->control.passes_wanted = passes;
      c.state->slots[0].end_position = end_position;
    };
  };
  EXPECT_EQ(refusal(launch(58, kContext)), "accepted") << "positions 70 to 127";
  EXPECT_THAT(refusal(launch(59, kContext)), AllOf(HasSubstr("row 0"), HasSubstr("KV block: -1")));
  EXPECT_EQ(refusal(launch(59, 128)), "accepted") << "the sequence ends first";
  EXPECT_THAT(refusal(launch(59, 129)), HasSubstr("KV block: -1"));
  EXPECT_EQ(refusal([&](Case& c) {
              launch(1000, kContext)(c);
              c.row(0).wants_logits = 0;  // an inner token of a prompt runs once
            }),
            "accepted");
}

TEST(CheckState, WantsOneRowForAPositionOfASequence) {
  EXPECT_THAT(refusal([](Case& c) { c.row(7) = c.row(0); }),
              HasSubstr("rows 0 and 7: same slot 0 and position 70"));
  EXPECT_EQ(refusal([](Case& c) {
              c.row(7) = c.row(0);
              c.row(7).position = 69;
            }),
            "accepted");
}

}  // namespace
}  // namespace serval::testing
