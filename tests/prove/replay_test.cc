// The results of a valid program do not depend on the interleaving, and an interleaving can be repeated.
#include "vm/host/replay.h"

#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/llama/decoder.h"
#include "tests/prove/campaign.h"
#include "tests/scheduler/graphs.h"
#include "tests/vm/toy_isa.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSampleSeeds = 200;
constexpr uint32_t kContext = 320;  // two leaves of attention

// A prompt that crosses the end of a leaf, and a short one that is sampled with a temperature.
const std::vector<Sequence>& sequences() {
  static const std::vector<Sequence> made = [] {
    constexpr size_t kLong = 258, kShort = 5;
    std::vector<Sequence> out(2);
    out[0].num_tokens = 3;
    out[1].num_tokens = 4;
    out[1].temperature = 0.9F;
    out[1].id = 1;
    for (size_t t = 0; t < kLong; ++t) out[0].prompt.push_back(static_cast<int32_t>(t * 7 % 203));
    for (size_t t = 0; t < kShort; ++t) out[1].prompt.push_back(static_cast<int32_t>(t * 31 % 203));
    return out;
  }();
  return made;
}

std::vector<Answer> answer(const BackendOptions& options) {
  static const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(tiny_config(), 3));
  return Decoder(tiny_config(), weights, options).answer(sequences());
}

TEST(Replay, SeedsGiveTheBitsOfTheFastMode) {
  const std::vector<Answer> expected = answer(host_options(kContext, 2, 2));
  for_each_seed(campaign_size("SERVAL_PROVE_INTERLEAVINGS", kSampleSeeds), [&](uint32_t seed) {
    constexpr uint32_t kSms[] = {1, 2, 3, 7};
    BackendOptions options = host_options(kContext, kSms[seed / 2 % std::size(kSms)]);
    options.schedule.queue_kind = seed / 8 % 2 == 0 ? QueueKind::kPerSm : QueueKind::kGlobal;
    options.limits.rows = seed / 16 % 2 == 0 ? 16 : 48;
    options.interleaving = seed;
    EXPECT_EQ(answer(options), expected) << "interleaving " << seed;
  });
}

// Tiles of rows, K splits, and attention that the host plans.
TEST(Replay, SeedsGiveTheBitsOfTheFastModeInTiles) {
  const LlamaConfig config = tiny_parts_config();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const std::vector<Sequence> sequence = {
      {.prompt = {5, 36, 67, 98, 129, 160, 191}, .num_tokens = 3, .temperature = 0.9F},
      {.prompt = {7, 14}, .num_tokens = 3, .id = 1}};
  const auto answer_of = [&](uint32_t sms, uint32_t rows, std::optional<uint64_t> seed) {
    BackendOptions options = host_options(kContext, sms);
    options.limits.tile_rows = 32;
    options.limits.batch_invariant = true;
    options.limits.rows = rows;
    options.interleaving = seed;
    return Decoder(config, weights, options).answer(sequence);
  };
  const std::vector<Answer> expected = answer_of(2, 40, std::nullopt);
  for_each_seed(campaign_size("SERVAL_PROVE_INTERLEAVINGS", kSampleSeeds), [&](uint32_t seed) {
    constexpr uint32_t kSms[] = {1, 2, 3, 7};
    const uint32_t sms = kSms[seed / 2 % std::size(kSms)], rows = seed / 8 % 2 == 0 ? 17 : 70;
    EXPECT_EQ(answer_of(sms, rows, seed), expected)
        << sms << " SMs, " << rows << " rows, interleaving " << seed;
  });
}

TEST(Replay, SeedsGiveTheBitsOfTheFastModeOnRanks) {
  constexpr uint32_t kRanks[] = {2, 4, 8};
  const LlamaConfig config = tiny_shared_config();
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::random(config, 3));
  const std::vector<Sequence> sequence = {
      {.prompt = {5, 36, 67, 98, 129}, .num_tokens = 3, .temperature = 0.9F}};
  const auto answer_of = [&](uint32_t ranks, uint32_t sms, std::optional<uint64_t> seed) {
    BackendOptions options = host_options(kContext, sms);
    options.limits.ranks = ranks;
    options.interleaving = seed;
    return Decoder(config, weights, options).answer(sequence);
  };
  std::map<uint32_t, std::vector<Answer>> expected;
  for (const uint32_t ranks : kRanks) expected[ranks] = answer_of(ranks, 2, std::nullopt);
  for_each_seed(campaign_size("SERVAL_PROVE_INTERLEAVINGS", kSampleSeeds), [&](uint32_t seed) {
    const uint32_t ranks = kRanks[seed / 2 % std::size(kRanks)], sms = 1 + seed / 6 % 3;
    EXPECT_EQ(answer_of(ranks, sms, seed), expected.at(ranks)) << ranks << " ranks, interleaving " << seed;
  });
}

// Two SMs: one writes a cell that the other reads; the pass's end waits for both.
Program hand_over(bool with_wait, uint32_t threshold = 1) {
  ToyBuilder builder(2);
  const uint32_t written = builder.counter(), done = builder.counter(), gate = builder.counter();
  builder.add(0, kToyAdd, {.in = 0, .out = 1, .value = 7}, {}, {{written, 1}, {done, 1}});
  const std::vector<Wait> waits = {{written, threshold, 1}};
  builder.add(1, kToyAdd, {.in = 1, .out = 2, .value = 1}, with_wait ? waits : std::vector<Wait>{},
              {{done, 1}});
  builder.add(1, kToyEnd, {}, {{done, 2, 1}}, {{gate, 1}});
  return builder.build(gate);
}

// The content of the cell that is written last.
uint32_t run(const Program& program, uint64_t seed, uint32_t result_cell) {
  std::vector<uint32_t> cells(kToyCells, 0);
  PassControl control{.passes_done = 0, .passes_wanted = 1, .last_pass = kKeepRunning, .stopped_by_host = 0};
  uint32_t stop = 0;
  HostMemory memory(program);
  memory.bind({0}, cells.data());
  memory.bind({1}, &control);
  memory.bind({2}, &stop);
  ReplayInterpreter(program, toy_isa(), memory, seed).run({});
  return cells[result_cell];
}

constexpr uint64_t kToySeeds = 64;

TEST(Replay, WaitThatHoldsShowsTheSameUnderEverySeed) {
  const Program program = hand_over(true);
  for (uint64_t seed = 0; seed < kToySeeds; ++seed) EXPECT_EQ(run(program, seed, 2), 8U) << seed;
}

TEST(Replay, DroppedWaitShowsUnderSomeSeedsAndRepeatsUnderEach) {
  const Program program = hand_over(false);
  std::set<uint32_t> results;
  for (uint64_t seed = 0; seed < kToySeeds; ++seed) {
    const uint32_t result = run(program, seed, 2);
    results.insert(result);
    EXPECT_EQ(run(program, seed, 2), result) << seed;
  }
  EXPECT_EQ(results, (std::set<uint32_t>{1, 8}));
}

// The second instruction overwrites what the first reads; both are in one queue for several SMs.
TEST(Replay, GlobalQueueLetsALaterInstructionFinishBeforeAnEarlierOneStarts) {
  ToyBuilder builder(3, QueueKind::kGlobal);
  const uint32_t done = builder.counter(), gate = builder.counter();
  builder.add(0, kToyAdd, {.in = 1, .out = 2, .value = 1}, {}, {{done, 1}});
  builder.add(0, kToyAdd, {.in = 0, .out = 1, .value = 7}, {}, {{done, 1}});
  builder.add(0, kToyEnd, {}, {{done, 2, 1}}, {{gate, 1}});
  const Program program = builder.build(gate);
  std::set<uint32_t> results;
  for (uint64_t seed = 0; seed < kToySeeds; ++seed) {
    const uint32_t result = run(program, seed, 2);
    results.insert(result);
    EXPECT_EQ(run(program, seed, 2), result) << seed;
  }
  EXPECT_EQ(results, (std::set<uint32_t>{1, 8}));
}

TEST(Replay, ProgramThatGetsStuckNamesTheInstructionAndTheSeed) {
  const Program program = hand_over(true, 2);  // there is only one increment
  for (const uint64_t seed : {4U, 5U}) {
    try {
      run(program, seed, 2);
      ADD_FAILURE() << "it was not stuck";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDeviceFault);
      EXPECT_THAT(error.what(), HasSubstr("SM 1 pc 0 (add)"));
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("interleaving {}", seed)));
    }
  }
}

}  // namespace
}  // namespace serval::testing
