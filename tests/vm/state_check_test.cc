#include "vm/state_check.h"

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/error.h"
#include "vm/kv_cache.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kVocab = 100, kContext = 200, kKvBlocks = 40;

// A state that checks: row 0 is slot 0 at position 70, row 3 is slot 2 at position 199.
struct Case {
  Program program;
  std::unique_ptr<StateBlock> state = std::make_unique<StateBlock>();
  std::vector<int32_t> block_table;

  Case() {
    program.limits = {kVocab, kContext, kKvBlocks};
    block_table.assign(size_t{kMaxSlots} * blocks(), -1);
    state->control.passes_wanted = 1;
    fill(0, 0, 70, {5, 6, 7, 8});
    fill(3, 2, 199, {0, 39, 20, 21});
  }
  static uint32_t blocks() { return blocks_for_tokens(kContext); }
  void fill(int row, uint32_t slot, uint32_t position, const std::vector<int32_t>& blocks_of_slot) {
    state->rows[row] = {.active = 1, .wants_logits = 1, .slot = slot, .token = 99, .position = position};
    state->slots[slot].end_position = kContext;
    std::copy(blocks_of_slot.begin(), blocks_of_slot.end(), block_table.begin() + slot * blocks());
  }
  PassRow& row(int r) { return state->rows[r]; }
};

std::string refusal(const std::function<void(Case&)>& damage) {
  Case c;
  damage(c);
  try {
    check_state(c.program, *c.state, c.block_table);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    return e.what();
  }
  return "accepted";
}

TEST(CheckState, AcceptsASoundState) {
  EXPECT_EQ(refusal([](Case&) {}), "accepted");
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
  EXPECT_THAT(refusal([](Case& c) { c.state->control.passes_wanted = kMaxLaunchPasses + 1; }),
              HasSubstr("passes: 4097"));
  EXPECT_EQ(refusal([](Case& c) { c.state->control.passes_wanted = kMaxLaunchPasses; }), "accepted");
}

TEST(CheckState, WantsABlockTableOfTheProgramsContext) {
  EXPECT_THAT(refusal([](Case& c) { c.block_table.pop_back(); }), HasSubstr("block table: 63 entries"));
  EXPECT_THAT(refusal([](Case& c) { c.block_table.clear(); }), HasSubstr("block table"));
}

TEST(CheckState, LimitsTheSlot) {
  EXPECT_THAT(refusal([](Case& c) { c.row(3).slot = kMaxSlots; }), HasSubstr("row 3: slot: 16, limit 15"));
}

TEST(CheckState, LimitsTheToken) {
  EXPECT_THAT(refusal([](Case& c) { c.row(0).token = kVocab; }), HasSubstr("row 0: token: 100, limit 99"));
  EXPECT_THAT(refusal([](Case& c) { c.row(0).token = -1; }), HasSubstr("row 0: token: -1"));
}

TEST(CheckState, LimitsThePosition) {
  EXPECT_THAT(refusal([](Case& c) { c.row(3).position = kContext; }),
              HasSubstr("row 3: position: 200, limit 199"));
  EXPECT_THAT(refusal([](Case& c) { c.row(3).position = std::numeric_limits<uint32_t>::max(); }),
              HasSubstr("position"));
}

TEST(CheckState, LimitsTheEndPosition) {
  EXPECT_THAT(refusal([](Case& c) { c.state->slots[2].end_position = kContext + 1; }),
              HasSubstr("end_position: 201, limit 200"));
}

TEST(CheckState, LimitsTheStopTokens) {
  EXPECT_THAT(refusal([](Case& c) { c.state->slots[0].num_stop_tokens = kMaxStopTokens + 1; }),
              HasSubstr("num_stop_tokens: 17, limit 16"));
}

TEST(CheckState, WantsKvBlocksUpToThePosition) {
  EXPECT_THAT(refusal([](Case& c) { c.block_table[1] = kKvBlocks; }), HasSubstr("KV block: 40, limit 39"));
  EXPECT_THAT(refusal([](Case& c) { c.block_table[0] = -1; }), HasSubstr("KV block: -1"));
  EXPECT_EQ(refusal([](Case& c) { c.block_table[2] = c.block_table[3] = -1; }), "accepted")
      << "position 70 needs two blocks";
}

// A launch of many passes moves a row that samples on: it must not meet a block that does not exist.
TEST(CheckState, WantsKvBlocksForEveryPositionTheLaunchMayReach) {
  const auto launch = [](uint32_t passes, uint32_t end_position) {
    return [=](Case& c) {
      c.block_table[2] = c.block_table[3] = -1;
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
