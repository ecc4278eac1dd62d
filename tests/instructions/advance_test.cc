#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"

#include "tests/instructions/scene.h"

namespace serval::testing {
namespace {

// The state of a sampled pass, and the record that ends the pass.
class AdvanceTest : public ::testing::Test {
 protected:
  explicit AdvanceTest(uint32_t rows = kDefaultRows, uint32_t sequences = kDefaultSequences) {
    bench_.program.limits.rows = rows;
    bench_.program.limits.sequences = sequences;
    const auto state = [&](const char* name, uint64_t count, uint64_t bytes) {
      return bench_.add(name, DType::kBytes, TensorKind::kState, count, bytes);
    };
    op_.sampled = state(state_tensor::kSampled, rows, sizeof(SampledToken));
    op_.host_stop = state(state_tensor::kHostStop, 1, sizeof(uint32_t));
    op_.rows = state(state_tensor::kRows, rows, sizeof(PassRow));
    op_.slots = state(state_tensor::kSlots, sequences, sizeof(SequenceSlot));
    op_.control = state(state_tensor::kControl, 1, sizeof(PassControl));
    op_.output = state(state_tensor::kOutput, launch_passes(rows), rows * sizeof(OutputToken));
    bench_.program.limits.max_context = kContext;
    op_.adjustments = state(state_tensor::kAdjustments, sequences, adjustment_bytes(kContext));
    for (uint32_t s = 0; s < sequences; ++s) {
      slot(s) = {};
      slot(s).end_position = 1000;
      slot(s).extras = kKeepsHistory;
    }
    control() = {};
    control().passes_wanted = 10;
    bench_.poison(op_.output);
  }

  static constexpr uint32_t kContext = 150;

  int32_t* history(uint32_t s) {
    const AdjustmentTable<std::byte> table{bench_.data<std::byte>(op_.adjustments), kContext};
    return reinterpret_cast<int32_t*>(table.of(s) + kHistoryOffset);
  }
  PassRow& row(uint32_t r) { return bench_.data<PassRow>(op_.rows)[r]; }
  SequenceSlot& slot(uint32_t s) { return bench_.data<SequenceSlot>(op_.slots)[s]; }
  PassControl& control() { return *bench_.data<PassControl>(op_.control); }
  uint32_t& host_stop() { return *bench_.data<uint32_t>(op_.host_stop); }
  const OutputToken& output(uint32_t pass, uint32_t r) {
    return bench_.data<OutputToken>(op_.output)[size_t{pass} * bench_.program.limits.rows + r];
  }

  void decode(uint32_t r, uint32_t s, uint32_t position, int32_t sampled, float log_probability = -1) {
    row(r) = {1, 1, s, 99, position, {}};
    bench_.data<SampledToken>(op_.sampled)[r] = {sampled, log_probability};
  }
  void run() { bench_.run(make_instruction(op_)); }

  Bench bench_;
  Advance op_{};
};

// More rows than a word has bits, and fewer sequences than rows.
class AdvanceManyRows : public AdvanceTest {
 protected:
  static constexpr uint32_t kRows = 256, kSequences = 240, kMoving = 40;
  AdvanceManyRows() : AdvanceTest(kRows, kSequences) {}
};

TEST_F(AdvanceManyRows, MovesEachRowOn) {
  for (uint32_t r = 0; r < kMoving; ++r) decode(6 * r, r, 10 * r, static_cast<int32_t>(100 + r));
  slot(31).end_position = 311;
  run();
  for (uint32_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(output(0, r).valid, r % 6 == 0 && r / 6 < kMoving ? 1U : 0U) << r;
    if (output(0, r).valid == 0) continue;
    EXPECT_EQ(row(r).active, r / 6 == 31 ? 0U : 1U) << r;
    EXPECT_EQ(output(0, r).token, static_cast<int32_t>(100 + r / 6));
    EXPECT_EQ(history(r / 6)[0], static_cast<int32_t>(100 + r / 6));
  }
}

TEST_F(AdvanceManyRows, HasAnOutputTableOfFewerPasses) {
  control().passes_wanted = launch_passes(kRows);
  control().passes_done = launch_passes(kRows) - 1;
  decode(255, 39, 0, 7);
  run();
  EXPECT_EQ(launch_passes(kRows), 256U);
  EXPECT_EQ(output(255, 255).token, 7);
  EXPECT_EQ(control().last_pass, 255U);
}

TEST_F(AdvanceTest, MovesADecodingRowToItsNextToken) {
  decode(4, 9, 17, 33, -0.5F);
  run();
  EXPECT_EQ(row(4).active, 1U);
  EXPECT_EQ(row(4).wants_logits, 1U);
  EXPECT_EQ(row(4).slot, 9U);
  EXPECT_EQ(row(4).token, 33);
  EXPECT_EQ(row(4).position, 18U);
  const OutputToken& out = output(0, 4);
  EXPECT_EQ(out.valid, 1U);
  EXPECT_EQ(out.slot, 9U);
  EXPECT_EQ(out.token, 33);
  EXPECT_EQ(out.log_probability, -0.5F);
  EXPECT_EQ(out.position, 18U);
  EXPECT_EQ(out.finish, FinishReason::kNone);
  EXPECT_EQ(control().passes_done, 1U);
  EXPECT_EQ(control().last_pass, kKeepRunning);
  EXPECT_EQ(control().stopped_by_host, 0U);
}

TEST_F(AdvanceTest, EndsASequenceAtAnyOfItsStopTokens) {
  slot(1).num_stop_tokens = 3;
  slot(1).stop_tokens[0] = 5;
  slot(1).stop_tokens[2] = 33;
  slot(1).stop_tokens[3] = 44;  // beyond the count
  decode(0, 1, 10, 33);
  decode(1, 2, 10, 33);  // the stop token of another sequence does not count
  run();
  EXPECT_EQ(row(0).active, 0U);
  EXPECT_EQ(output(0, 0).finish, FinishReason::kStopToken);
  EXPECT_EQ(output(0, 0).token, 33);
  EXPECT_EQ(row(1).active, 1U);
  EXPECT_EQ(output(0, 1).finish, FinishReason::kNone);
  EXPECT_EQ(control().last_pass, kKeepRunning);
  decode(0, 1, 10, 44);
  run();
  EXPECT_EQ(output(1, 0).finish, FinishReason::kNone);
}

TEST_F(AdvanceTest, ReadsNoMoreStopTokensThanThereIsRoomFor) {
  slot(1).num_stop_tokens = 0xFFFFFFFF;
  slot(1).stop_tokens[kMaxStopTokens - 1] = 5;
  decode(0, 1, 10, 6);
  run();
  EXPECT_EQ(output(0, 0).finish, FinishReason::kNone);
  decode(0, 1, 10, 5);
  run();
  EXPECT_EQ(output(1, 0).finish, FinishReason::kStopToken);
}

TEST_F(AdvanceTest, EndsASequenceThatWouldNeedItsEndPosition) {
  slot(1).end_position = 21;
  slot(2).end_position = 21;
  decode(0, 1, 19, 7);
  decode(1, 2, 20, 7);
  run();
  EXPECT_EQ(row(0).active, 1U);  // its token is at position 20
  EXPECT_EQ(output(0, 0).finish, FinishReason::kNone);
  EXPECT_EQ(row(1).active, 0U);
  EXPECT_EQ(output(0, 1).finish, FinishReason::kLength);
  run();
  EXPECT_EQ(row(0).active, 0U);
  EXPECT_EQ(output(1, 0).finish, FinishReason::kLength);
  EXPECT_EQ(control().last_pass, 1U);
}

TEST_F(AdvanceTest, AStopTokenAtTheEndPositionIsAStopToken) {
  slot(1).end_position = 21;
  slot(1).num_stop_tokens = 1;
  slot(1).stop_tokens[0] = 7;
  decode(0, 1, 20, 7);
  run();
  EXPECT_EQ(output(0, 0).finish, FinishReason::kStopToken);
}

TEST_F(AdvanceTest, EndsASequenceWhoseLogitsWereNotFinite) {
  slot(1).num_stop_tokens = 1;
  slot(1).stop_tokens[0] = 7;
  decode(0, 1, 999, 7, std::numeric_limits<float>::quiet_NaN());  // not because of its stop token or length
  decode(1, 2, 10, 7, -std::numeric_limits<float>::infinity());   // very unlikely, but a number
  run();
  EXPECT_EQ(row(0).active, 0U);
  EXPECT_EQ(output(0, 0).valid, 1U);
  EXPECT_EQ(output(0, 0).finish, FinishReason::kNotFinite);
  EXPECT_EQ(row(1).active, 1U);
  EXPECT_EQ(output(0, 1).finish, FinishReason::kNone);
}

TEST_F(AdvanceTest, RowsOfAPromptThatSampleNothingBecomeInactive) {
  for (uint32_t r = 0; r < 4; ++r) {
    row(r) = {1, 0, 3, static_cast<int32_t>(r), 50 + r, {}};
  }
  decode(4, 3, 54, 8);
  run();
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(row(r).active, 0U);
    EXPECT_EQ(output(0, r).valid, 0U);
  }
  EXPECT_EQ(row(4).active, 1U);
  EXPECT_EQ(row(4).position, 55U);
  EXPECT_EQ(slot(3).history_length, 1U);
  EXPECT_EQ(control().last_pass, kKeepRunning);
}

TEST_F(AdvanceTest, AChunkOfAPromptEndsTheLaunch) {
  row(0) = {1, 0, 3, 1, 50, {}};
  run();
  EXPECT_EQ(control().passes_done, 1U);
  EXPECT_EQ(control().last_pass, 0U);
  EXPECT_EQ(slot(3).history_length, 0U);
}

TEST_F(AdvanceTest, InactiveRowsStayInactiveWhateverTheyHold) {
  row(2) = {0, 1, 0xFFFFFFFF, -1, 0xFFFFFFFF, {}};
  decode(5, 0, 3, 7);
  run();
  EXPECT_EQ(row(2).active, 0U);
  EXPECT_EQ(output(0, 2).valid, 0U);
  EXPECT_EQ(row(5).active, 1U);
}

TEST_F(AdvanceTest, EndsTheLaunchWhenThePassesAreDone) {
  control().passes_wanted = 3;
  decode(0, 0, 0, 7);
  for (uint32_t pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(control().last_pass, kKeepRunning);
    run();
    EXPECT_EQ(control().passes_done, pass + 1);
  }
  EXPECT_EQ(control().last_pass, 2U);
  EXPECT_EQ(control().stopped_by_host, 0U);
  EXPECT_EQ(row(0).active, 1U);  // the sequence continues in the next launch
}

TEST_F(AdvanceTest, TheHostsStopEndsTheLaunchAfterThisPass) {
  decode(0, 0, 0, 7);
  run();
  host_stop() = 1;
  run();
  EXPECT_EQ(control().last_pass, 1U);
  EXPECT_EQ(control().stopped_by_host, 1U);
  EXPECT_EQ(output(1, 0).valid, 1U);  // the sampled token is not lost
  EXPECT_EQ(row(0).active, 1U);
  EXPECT_EQ(row(0).position, 2U);
  EXPECT_EQ(host_stop(), 1U);  // only the host clears it
}

TEST_F(AdvanceTest, KeepsTheTokensAsFarAsTheContextGoes) {
  decode(0, 6, 0, 0);
  control().passes_wanted = kMostLaunchPasses;
  constexpr int32_t kTokens = kContext + 5;
  bench_.data<std::byte>(op_.adjustments)[7 * adjustment_bytes(kContext)] = std::byte{0xA5};
  for (int32_t t = 0; t < kTokens; ++t) {
    bench_.data<SampledToken>(op_.sampled)[0] = {1000 + t, 0};
    run();
  }
  EXPECT_EQ(slot(6).history_length, static_cast<uint32_t>(kTokens));
  for (int32_t t = 0; t < static_cast<int32_t>(kContext); ++t) EXPECT_EQ(history(6)[t], 1000 + t);
  EXPECT_EQ(bench_.data<std::byte>(op_.adjustments)[7 * adjustment_bytes(kContext)], std::byte{0xA5});
  EXPECT_EQ(slot(5).history_length, 0U);
}

TEST_F(AdvanceTest, KeepsTokensOnlyForSequencesThatAskForIt) {
  slot(6).extras = 0;
  history(6)[0] = -7;
  decode(0, 6, 0, 33);
  run();
  EXPECT_EQ(slot(6).history_length, 1U);
  EXPECT_EQ(history(6)[0], -7);
}

TEST_F(AdvanceTest, AFinishingTokenIsInTheHistoryToo) {
  slot(1).num_stop_tokens = 1;
  slot(1).stop_tokens[0] = 33;
  decode(0, 1, 10, 33);
  run();
  EXPECT_EQ(slot(1).history_length, 1U);
  EXPECT_EQ(history(1)[0], 33);
}

TEST_F(AdvanceTest, FillsOneLineOfTheOutputTableAPass) {
  control().passes_wanted = kMostLaunchPasses;
  decode(3, 0, 0, 7);
  for (uint32_t pass = 0; pass < 5; ++pass) {
    const std::vector<std::byte> before = bench_.memory[op_.output.index];
    run();
    const std::vector<std::byte>& now = bench_.memory[op_.output.index];
    const size_t line = kDefaultRows * sizeof(OutputToken), begin = pass * line;
    EXPECT_EQ(std::memcmp(now.data(), before.data(), begin), 0);
    EXPECT_EQ(std::memcmp(&now[begin + line], &before[begin + line], now.size() - begin - line), 0);
    for (uint32_t r = 0; r < kDefaultRows; ++r) EXPECT_EQ(output(pass, r).valid, r == 3 ? 1U : 0U);
    EXPECT_EQ(output(pass, 3).position, pass + 1);
  }
}

TEST_F(AdvanceTest, ReachesTheLastLineOfTheOutputTable) {
  control().passes_wanted = kMostLaunchPasses;
  control().passes_done = kMostLaunchPasses - 1;
  decode(15, 0, 0, 7);
  run();
  EXPECT_EQ(output(kMostLaunchPasses - 1, 15).token, 7);
  EXPECT_EQ(control().last_pass, static_cast<uint32_t>(kMostLaunchPasses - 1));
}

// An SM may read `last_pass` late, so a pass that is not the last must not write it.
TEST_F(AdvanceTest, WritesTheLastPassOnlyWhenItDecides) {
  constexpr uint32_t kMark = 12345;
  decode(0, 0, 0, 7);
  control().last_pass = kMark;
  run();
  EXPECT_EQ(control().last_pass, kMark);
  host_stop() = 1;
  run();
  EXPECT_EQ(control().last_pass, 1U);
}

TEST_F(AdvanceTest, ARowsFateDoesNotDependOnTheOthers) {
  for (uint32_t r = 0; r < kDefaultRows; ++r) decode(r, r, 10 * r, static_cast<int32_t>(100 + r));
  slot(3).end_position = 31;
  slot(8).num_stop_tokens = 1;
  slot(8).stop_tokens[0] = 108;
  run();
  for (uint32_t r = 0; r < kDefaultRows; ++r) {
    EXPECT_EQ(row(r).active, r == 3 || r == 8 ? 0U : 1U) << r;
    EXPECT_EQ(output(0, r).token, static_cast<int32_t>(100 + r));
    EXPECT_EQ(history(r)[0], static_cast<int32_t>(100 + r));
  }
}

// A sequence whose row `r` has its last token and is followed by rows with drafts.
class AdvanceDrafts : public AdvanceTest {
 protected:
  static constexpr uint32_t kSlot = 5, kFirst = 2, kRoom = 4;

  // Sets the sequence's tokens and its rows. `sampled`: tokens drawn at the last token and at each draft.
  void pass(const std::vector<int32_t>& tokens, const std::vector<int32_t>& drafts,
            const std::vector<int32_t>& sampled) {
    std::ranges::copy(tokens, history(kSlot));
    slot(kSlot).history_length = static_cast<uint32_t>(tokens.size());
    slot(kSlot).drafts = {.most = kRoom, .least = 1, .ngram_min = 1, .ngram_max = 3};
    const auto last = static_cast<uint32_t>(tokens.size()) - 1;
    for (uint32_t i = 0; i <= kRoom; ++i) {
      const bool is_active = i <= drafts.size();
      row(kFirst + i) = {.active = is_active ? 1U : 0U,
                         .wants_logits = 1,
                         .slot = kSlot,
                         .token = i == 0      ? tokens.back()
                                  : is_active ? drafts[i - 1]
                                              : 0,
                         .position = last + i,
                         .drafts = i == 0 ? kRoom : 0};
      bench_.data<SampledToken>(op_.sampled)[kFirst + i] = {i < sampled.size() ? sampled[i] : -9, -1};
    }
  }
  // Tokens that the pass published.
  std::vector<int32_t> published(uint32_t pass = 0) {
    std::vector<int32_t> tokens;
    for (uint32_t i = 0; i <= kRoom && output(pass, kFirst + i).valid != 0; ++i)
      tokens.push_back(output(pass, kFirst + i).token);
    return tokens;
  }
  // Drafts of the next pass.
  std::vector<int32_t> drafted() {
    std::vector<int32_t> tokens;
    for (uint32_t i = 1; i <= kRoom && row(kFirst + i).active != 0; ++i)
      tokens.push_back(row(kFirst + i).token);
    return tokens;
  }
  using Tokens = std::vector<int32_t>;
};

TEST_F(AdvanceDrafts, PublishesWhatWasDrawnAfterRightDrafts) {
  pass({1, 2, 3}, {4, 5, 6}, {4, 5, 7, 8});
  run();
  EXPECT_EQ(published(), (Tokens{4, 5, 7})) << "6 was not drawn, so what was drawn after it is worth nothing";
  EXPECT_EQ(output(0, kFirst).drafts, 3U);
  EXPECT_EQ(output(0, kFirst + 2).position, 5U);
  EXPECT_EQ(output(0, kFirst + 3).valid, 0U);
  EXPECT_EQ(row(kFirst).token, 7);
  EXPECT_EQ(row(kFirst).position, 5U);
  EXPECT_EQ(row(kFirst).active, 1U);
  EXPECT_EQ(row(kFirst).drafts, kRoom);
  EXPECT_EQ(slot(kSlot).history_length, 6U);
  EXPECT_TRUE(std::ranges::equal(std::span(history(kSlot), 6), Tokens{1, 2, 3, 4, 5, 7}));
}

TEST_F(AdvanceDrafts, KeepsOneTokenIfNoDraftIsRight) {
  pass({1, 2, 3}, {4, 5}, {9, 5, 6});
  run();
  EXPECT_EQ(published(), Tokens{9});
  EXPECT_EQ(row(kFirst).position, 3U);
  pass({1, 2, 3}, {}, {9});
  run();
  EXPECT_EQ(published(1), Tokens{9});
  EXPECT_EQ(output(1, kFirst).drafts, 0U);
}

TEST_F(AdvanceDrafts, ASequenceEndsWithinItsDrafts) {
  slot(kSlot).num_stop_tokens = 1;
  slot(kSlot).stop_tokens[0] = 5;
  pass({1, 2, 3}, {4, 5, 6}, {4, 5, 6, 7});
  run();
  EXPECT_EQ(published(), (Tokens{4, 5}));
  EXPECT_EQ(output(0, kFirst + 1).finish, FinishReason::kStopToken);
  EXPECT_EQ(row(kFirst).active, 0U);
  EXPECT_EQ(drafted(), Tokens{});
  slot(kSlot).num_stop_tokens = 0;
  slot(kSlot).end_position = 4;
  pass({1, 2, 3}, {4, 5, 6}, {4, 5, 6, 7});
  run();
  EXPECT_EQ(published(1), (Tokens{4, 5})) << "as without drafts: the token at position 4 is the last";
  EXPECT_EQ(output(1, kFirst + 1).finish, FinishReason::kLength);
  EXPECT_EQ(control().last_pass, 1U);
}

TEST_F(AdvanceDrafts, ContinuesTheLongestEarlierOccurrenceAndOfTheseTheLast) {
  pass({1, 2, 3, 50, 9, 3, 51, 2, 3, 52, 7, 2}, {}, {3});
  run();
  EXPECT_EQ(drafted(), (Tokens{52, 7, 2, 3}));
  pass({1, 2, 3, 50, 7, 2, 3, 51, 8, 3, 52, 7, 2}, {}, {3});
  run();
  EXPECT_EQ(drafted(), (Tokens{51, 8, 3, 52})) << "7 2 3 is longer than 3";
  pass({1, 2, 3}, {}, {4});
  run();
  EXPECT_EQ(drafted(), Tokens{}) << "4 is new";
}

TEST_F(AdvanceDrafts, RepeatWhatHasNoEnd) {
  pass({1, 2, 3, 2}, {}, {3});
  run();
  EXPECT_EQ(drafted(), (Tokens{2, 3, 2, 3}));
  pass({1, 7}, {}, {7});
  run();
  EXPECT_EQ(drafted(), (Tokens{7, 7, 7, 7}));
}

TEST_F(AdvanceDrafts, NeedAsManyTokensAsTheRuleSays) {
  pass({1, 2, 3, 50, 9}, {}, {3});
  slot(kSlot).drafts.ngram_min = 2;
  run();
  EXPECT_EQ(drafted(), Tokens{});
  pass({9, 3, 50, 9}, {}, {3});
  slot(kSlot).drafts.ngram_min = 2;
  run();
  EXPECT_EQ(drafted(), (Tokens{50, 9, 3, 50}));
}

TEST_F(AdvanceDrafts, HaveTheNextPositionsBeforeTheEnd) {
  slot(kSlot).end_position = 8;
  pass({1, 7, 1, 7}, {}, {1});
  run();
  EXPECT_EQ(row(kFirst).position, 4U);
  EXPECT_EQ(drafted(), (Tokens{7, 1, 7}));
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(row(kFirst + i).position, 4 + i);
    EXPECT_EQ(row(kFirst + i).slot, kSlot);
    EXPECT_EQ(row(kFirst + i).wants_logits, 1U);
    EXPECT_EQ(row(kFirst + i).drafts, 0U);
  }
  pass({1, 7, 1, 7}, {}, {1});
  slot(kSlot).drafts.least = 4;
  run();
  EXPECT_EQ(drafted(), Tokens{}) << "three are too few";
}

TEST_F(AdvanceDrafts, PauseAfterPassesInWhichNoneWasRight) {
  control().passes_wanted = 100;
  std::vector<uint32_t> passes_with_drafts;
  pass({1, 7, 1, 7, 1}, {}, {7});
  for (uint32_t p = 0; p < 40; ++p) {
    if (!drafted().empty()) passes_with_drafts.push_back(p);
    bench_.data<SampledToken>(op_.sampled)[kFirst].token = 7;
    for (uint32_t i = 1; i <= kRoom; ++i) row(kFirst + i).token = 99;  // wrong, and 7 is drawn all the same
    run();
  }
  EXPECT_EQ(passes_with_drafts, (std::vector<uint32_t>{1, 3, 7, 15, 31}));
  slot(kSlot).drafts.pause = 0;
  pass({1, 7, 1, 7, 1}, {7}, {7, 1});
  slot(kSlot).drafts.misses = 4;
  run();
  EXPECT_EQ(slot(kSlot).drafts.misses, 0U) << "one right draft, and the next miss is the first";
}

TEST_F(AdvanceDrafts, AreRightByChanceIfTheRuleSaysSo) {
  uint32_t right = 0;
  constexpr uint32_t kPasses = 400;
  control().passes_wanted = kPasses;
  for (uint32_t p = 0; p < kPasses; ++p) {
    pass({1, 2, 3}, {50, 51, 52, 53}, {4, 5, 6, 7, 8});
    slot(kSlot).drafts.accept_rate = 0.5F;
    slot(kSlot).seed = p;
    run();
    right += static_cast<uint32_t>(published(p).size()) - 1;
    const bool pauses = published(p).size() == 1;
    EXPECT_EQ(drafted().size(), pauses ? 0 : kRoom) << "whatever the tokens are";
  }
  EXPECT_NEAR(right / double{kPasses}, 0.5 + 0.25 + 0.125 + 0.0625, 0.15);
}

TEST_F(AdvanceDrafts, LeaveTheRowsOfOtherSequencesAlone) {
  pass({1, 2, 3}, {4, 5}, {4, 9, 9});
  decode(0, 1, 10, 33);
  decode(kFirst + kRoom + 1, 7, 20, 34);
  run();
  EXPECT_EQ(published(), (Tokens{4, 9}));
  EXPECT_EQ(output(0, 0).token, 33);
  EXPECT_EQ(output(0, kFirst + kRoom + 1).token, 34);
  EXPECT_EQ(row(kFirst + kRoom + 1).position, 21U);
  EXPECT_EQ(slot(7).history_length, 1U);
}

}  // namespace
}  // namespace serval::testing
