#include "vm/state/check_attention.h"

#include <functional>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSms = 2, kHeads = 2;
constexpr StateLimits kLimits{
    .vocab = 9, .max_context = 5 * kPlannedLeafTokens, .kv_blocks = 1, .rows = 32, .sequences = 4};

// Rows 0 and 1 are slot 1 up to its third leaf, and head 0's leaves are split between both records; row 5 is
// slot 3.
struct Case {
  Program program;
  std::unique_ptr<StateBlock> state = std::make_unique<StateBlock>(kLimits);

  Case() {
    program.limits = kLimits;
    program.heads = {.head_dim = 64, .q_heads = kHeads, .kv_heads = kHeads};
    program.machine.sms = kSms;
    program.tensors.push_back(
        {.name = state_tensor::kAttention, .rows = 1, .cols = 1, .kind = TensorKind::kState});
    program.tensors.push_back(
        {.name = "cache", .rows = 64 * kHeads, .cols = 64, .kind = TensorKind::kKvCache, .head_dim = 64});
    for (AttentionItem& item : std::span(state->attention.item(), attention_items(kLimits.rows))) item = {};
    add_row(0, 1, 2 * kPlannedLeafTokens + 5);
    add_row(1, 1, 2 * kPlannedLeafTokens + 6);
    add_row(5, 3, 10);
    AttentionList& list = state->attention;
    list.records = kSms;
    list.items = 4;
    list.begin[1] = 2;
    list.begin[2] = 4;
    list.splits = 1;
    list.split_rows = 2;
    list.split[0] = {.first_row = 0,
                     .rows = 2,
                     .head = 0,
                     .prefix_leaves = 1,
                     .first_place = 7,
                     .row_places = 3,
                     .rows_before = 0};
    item(0) = {.slot = 3, .first_row = 5, .rows = 1, .first_head = 0, .heads = 2};
    item(1) = {.slot = 1,
               .first_row = 0,
               .rows = 2,
               .first_head = 0,
               .heads = 1,
               .first_leaf = 1,
               .end_leaf = 3,
               .first_place = 8,
               .row_places = 3};
    item(2) = {.slot = 1,
               .first_row = 0,
               .rows = 2,
               .first_head = 0,
               .heads = 1,
               .first_leaf = 0,
               .end_leaf = 1,
               .first_place = 7,
               .row_places = 3};
    item(3) = {.slot = 1, .first_row = 0, .rows = 2, .first_head = 1, .heads = 1};
  }
  void add_row(uint32_t row, uint32_t slot, uint32_t position) {
    state->rows[row] = {.active = 1, .wants_logits = 1, .slot = slot, .token = 0, .position = position};
    state->slots[slot].end_position = kLimits.max_context;
    state->control.passes_wanted = 1;
  }
  AttentionItem& item(uint32_t i) { return state->attention.item()[i]; }
  AttentionSplit& split() { return state->attention.split[0]; }
};

std::string refusal(const std::function<void(Case&)>& damage) {
  Case c;
  damage(c);
  try {
    check_attention(c.program, *c.state);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUsage);
    return e.what();
  }
  return "accepted";
}

TEST(CheckAttention, AcceptsASoundList) {
  EXPECT_EQ(refusal([](Case&) {}), "accepted");
}

TEST(CheckAttention, IsForProgramsThatHaveTheList) {
  EXPECT_EQ(refusal([](Case& c) {
              c.program.tensors.erase(c.program.tensors.begin());
              c.state->attention.records = 9;
            }),
            "accepted");
}

TEST(CheckAttention, WantsTheProgramsRecords) {
  EXPECT_THAT(refusal([](Case& c) { c.state->attention.records = 3; }),
              HasSubstr("3 records, the program has 2 SMs"));
  EXPECT_THAT(refusal([](Case& c) { c.state->attention.begin[2] = 3; }),
              HasSubstr("ranges are not the 4 items"));
  EXPECT_THAT(refusal([](Case& c) { c.state->attention.begin[1] = 5; }),
              HasSubstr("ranges are not the 4 items"));
  EXPECT_THAT(refusal([](Case& c) { c.state->attention.items = 1 << 20; }), HasSubstr("items; limit: 4128"));
}

TEST(CheckAttention, WantsEveryRowHeadAndLeafOnce) {
  EXPECT_THAT(refusal([](Case& c) { c.item(0).heads = 1; }),
              HasSubstr("row 5, KV head 1: no item has its leaves from 0 on"));
  EXPECT_THAT(refusal([](Case& c) { c.item(3) = c.item(0); }),
              HasSubstr("begins with leaf 0, expected 4294967295"));
  EXPECT_THAT(refusal([](Case& c) { c.item(1).first_leaf = 2; }),
              HasSubstr("begins with leaf 2, expected 1"));
  EXPECT_THAT(refusal([](Case& c) { c.item(1).end_leaf = 2; }),
              HasSubstr("no item has its leaves from 2 on"));
  EXPECT_THAT(refusal([](Case& c) { c.item(1).end_leaf = 1; }), HasSubstr("item 1: leaves 1 to 1"));
}

// Most lists have no splits and take a shorter check.
TEST(CheckAttention, SaysWhatIsWrongWhereNothingIsSplit) {
  const auto refusal_of_whole = [](const std::function<void(Case&)>& damage) {
    return refusal([&](Case& c) {
      AttentionList& list = c.state->attention;
      list.splits = list.split_rows = 0;
      list.items = list.begin[2] = 3;
      c.item(1) = {.slot = 1, .first_row = 0, .rows = 2, .first_head = 0, .heads = 1};
      c.item(2) = {.slot = 1, .first_row = 0, .rows = 2, .first_head = 1, .heads = 1};
      damage(c);
    });
  };
  EXPECT_EQ(refusal_of_whole([](Case&) {}), "accepted");
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(0).heads = 1; }),
              HasSubstr("row 5, KV head 1: no item has its leaves from 0 on"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(2).first_head = 0; }),
              HasSubstr("item 2: row 0, KV head 0: begins with leaf 0, expected 4294967295"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(1).heads = 2; }), HasSubstr("begins with leaf 0"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(0).slot = 2; }),
              HasSubstr("row 5 is not an active one of slot 2"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(0).first_row = 4; }),
              HasSubstr("row 4 is not an active one"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(0).rows = 0; }), HasSubstr("item 0: rows 0 of 5"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(0).first_row = 40; }), HasSubstr("item 0: rows 1 of 40"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(2).heads = 2; }), HasSubstr("item 2: KV heads 2 of 1"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(2).end_leaf = 3; }),
              HasSubstr("item 2: its places are not those"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.item(2).first_place = 0; }),
              HasSubstr("item 2: its places are not those"));
  EXPECT_THAT(refusal_of_whole([](Case& c) { c.state->attention.split_rows = 1; }),
              HasSubstr("1 rows of splits, expected 0"));
}

TEST(CheckAttention, WantsRowsAndHeadsOfTheProgram) {
  EXPECT_THAT(refusal([](Case& c) { c.item(0).slot = 1; }),
              HasSubstr("row 5 is not an active one of slot 1"));
  EXPECT_THAT(refusal([](Case& c) { c.item(3).rows = 3; }), HasSubstr("row 2 is not an active one"));
  EXPECT_THAT(refusal([](Case& c) { c.item(3).first_row = 31; }),
              HasSubstr("item 3: rows 2 of 31; limit: 32"));
  EXPECT_THAT(refusal([](Case& c) { c.item(0).first_head = 1; }),
              HasSubstr("item 0: KV heads 2 of 1; limit: 2"));
}

TEST(CheckAttention, WantsAPlaceForWhatIsPartial) {
  const auto wrong = HasSubstr("its places are not those of a split of row 0");
  EXPECT_THAT(refusal([](Case& c) { c.item(1).first_place = 9; }), wrong);
  EXPECT_THAT(refusal([](Case& c) { c.item(2).first_place = kNoPlace; }), wrong);
  EXPECT_THAT(refusal([](Case& c) { c.item(1).row_places = 2; }), HasSubstr("its places are not those"));
  EXPECT_THAT(refusal([](Case& c) { c.split().prefix_leaves = 2; }), HasSubstr("its places are not those"));
  EXPECT_THAT(refusal([](Case& c) { c.split().head = 1; }), HasSubstr("its places are not those"));
}

TEST(CheckAttention, WantsPlacesUpToTheLastPassOfTheLaunch) {
  const auto grows = [](Case& c) { c.state->control.passes_wanted = kPlannedLeafTokens + 76; };
  EXPECT_THAT(refusal(grows), HasSubstr("no item has its leaves from 3 on"));
  EXPECT_THAT(refusal([&](Case& c) {
                grows(c);
                c.item(1).end_leaf = 4;
              }),
              HasSubstr("3 places for the 4 leaves of row"));
  EXPECT_THAT(
      refusal([](Case& c) { c.split().row_places = c.item(1).row_places = c.item(2).row_places = 2; }),
      HasSubstr("2 places for the 3 leaves of row 0"));
}

TEST(CheckAttention, WantsSplitsThatDoNotMeet) {
  const auto second = [](Case& c, const AttentionSplit& split) {
    c.state->attention.splits = 2;
    c.state->attention.split_rows += split.rows;
    c.state->attention.split[1] = split;
  };
  EXPECT_THAT(refusal([&](Case& c) { second(c, c.split()); }), HasSubstr("rows before, expected 2"));
  EXPECT_THAT(refusal([&](Case& c) {
                AttentionSplit other = c.split();
                other.rows_before = 2;
                second(c, other);
              }),
              HasSubstr("row 0 and KV head 0 are in another"));
  EXPECT_THAT(refusal([&](Case& c) {
                second(c, {.first_row = 9,
                           .rows = 1,
                           .head = 1,
                           .prefix_leaves = 1,
                           .first_place = 12,
                           .row_places = 2,
                           .rows_before = 2});
              }),
              HasSubstr("splits 0 and 1 share a place"));
  EXPECT_THAT(refusal([](Case& c) { c.split().first_place = kAttentionPlaces; }), HasSubstr("limit: 16384"));
  EXPECT_THAT(refusal([](Case& c) { c.state->attention.split_rows = 3; }),
              HasSubstr("3 rows of splits, expected 2"));
}

TEST(CheckAttention, LetsNoItemsShareASequenceOfOneLeaf) {
  EXPECT_THAT(refusal([](Case& c) { c.program.limits.max_context = kPlannedLeafTokens; }),
              HasSubstr("1 splits; limit: 0 (a sequence has one leaf)"));
}

}  // namespace
}  // namespace serval::testing
