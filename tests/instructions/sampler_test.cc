#include "instructions/sample/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <set>

#include "gtest/gtest.h"

#include "instructions/sample/random.h"

namespace serval::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Logits = std::vector<float>;

// Logits with these probabilities as softmax.
Logits logits_of(const std::vector<double>& probabilities) {
  Logits out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

// A slot with its history, biases and mask.
struct Slot : SequenceSlot {
  std::vector<int32_t> tokens;
  std::vector<TokenBias> biases;
  std::vector<uint32_t> mask;
};

Slot sampling(float temperature) {
  Slot slot;
  slot.seed = 42;
  slot.temperature = temperature;
  return slot;
}

Slot seen(Slot slot, float penalty, const std::vector<int32_t>& tokens) {
  slot.repetition_penalty = penalty;
  slot.tokens = tokens;
  return slot;
}

Slot generated(const std::vector<int32_t>& tokens, float frequency, float presence) {
  Slot slot = seen(sampling(0), 1, tokens);
  slot.frequency_penalty = frequency;
  slot.presence_penalty = presence;
  return slot;
}

SampledToken draw(const Logits& logits, Slot slot, uint32_t position = 0) {
  std::vector<Candidate> candidates;
  slot.num_biases = static_cast<uint32_t>(slot.biases.size());
  slot.history_length = static_cast<uint32_t>(slot.tokens.size());
  slot.masked = slot.mask.empty() ? 0 : 1;
  slot.extras = extras_of(slot);
  return sample_token(logits, slot, position, candidates, {slot.biases, slot.tokens, slot.mask});
}

int32_t greedy(const Logits& logits, const Slot& slot = sampling(0)) {
  return draw(logits, slot).token;
}

std::vector<int> frequencies(const Logits& logits, const Slot& slot, uint32_t draws) {
  std::vector<int> out(logits.size());
  for (uint32_t position = 0; position < draws; ++position) {
    ++out[static_cast<size_t>(draw(logits, slot, position).token)];
  }
  return out;
}

// The set of tokens that are drawn; tests use it for probabilities of at least one percent.
std::set<int32_t> support(const Logits& logits, const Slot& slot) {
  constexpr uint32_t kDraws = 3000;
  std::set<int32_t> out;
  const std::vector<int> count = frequencies(logits, slot, kDraws);
  for (size_t t = 0; t < count.size(); ++t) {
    if (count[t] > 0) out.insert(static_cast<int32_t>(t));
  }
  return out;
}

// Pearson's statistic must be below the value that chance exceeds once in a million (Wilson and Hilferty's
// quantile).
void expect_frequencies(const std::vector<int>& counts, const std::vector<double>& probabilities) {
  constexpr double kNormalQuantile = 4.753;
  double draws = 0, statistic = 0, freedom = -1;
  for (const int c : counts) draws += c;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "token " << i;
      continue;
    }
    const double expected = draws * probabilities[i];
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++freedom;
  }
  const double spread = 2 / (9 * freedom);
  EXPECT_LT(statistic, freedom * std::pow(1 - spread + kNormalQuantile * std::sqrt(spread), 3));
}

std::vector<double> softmax(const Logits& logits, double temperature = 1) {
  double sum = 0;
  std::vector<double> out;
  for (const float x : logits) out.push_back(std::exp(x / temperature));
  for (const double p : out) sum += p;
  for (double& p : out) p /= sum;
  return out;
}

// From the known-answer file of Random123, the authors' library.
TEST(Philox, GivesThePublishedNumbers) {
  using Counter = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsBelowOneAndDependsOnSeedSequenceAndPosition) {
  std::set<float> values;
  for (uint32_t i = 0; i < 1000; ++i) {
    for (const float u : {uniform(i, 0, 0), uniform(uint64_t{i + 1} << 32, 0, 0), uniform(7, i + 1, 0),
                          uniform(7, 0, i + 1)}) {
      EXPECT_GE(u, 0.0F);
      EXPECT_LT(u, 1.0F);
      EXPECT_EQ(u * 0x1p24F, std::floor(u * 0x1p24F));
      values.insert(u);
    }
  }
  EXPECT_GT(values.size(), 3990U);  // among 4000 values in 2^24, half a coincidence is expected
}

TEST(Sampler, GreedyTakesTheLargestLogitAndTheLowestIdAmongEquals) {
  EXPECT_EQ(greedy({0, 3, 1}), 1);
  EXPECT_EQ(greedy({5, 7, 7, 7}), 1);
  EXPECT_EQ(greedy({-0.0F, 0.0F}), 0);
  EXPECT_EQ(greedy({2}), 0);
  EXPECT_EQ(greedy({0, 3, 1}, sampling(-1)), 1);
}

TEST(Sampler, GreedyIgnoresTheFiltersButNotThePenalty) {
  Slot slot = seen(sampling(0), 2, {1});
  slot.top_k = 1;
  slot.top_p = 0.01F;
  slot.min_p = 1;
  EXPECT_EQ(greedy({1, 3, 2}, slot), 2);
}

TEST(Sampler, PenaltyDividesPositiveLogitsAndMultipliesTheOthers) {
  EXPECT_EQ(greedy({4, 2.1F}, seen(sampling(0), 2, {0})), 1);
  EXPECT_EQ(greedy({4, 1.9F}, seen(sampling(0), 2, {0})), 0);
  EXPECT_EQ(greedy({-1, -1.9F}, seen(sampling(0), 2, {0})), 1);
  EXPECT_EQ(greedy({-1, -2.1F}, seen(sampling(0), 2, {0})), 0);
  EXPECT_EQ(greedy({3, 4}, seen(sampling(0), 0.5F, {0})), 0);
}

TEST(Sampler, PenaltyCountsATokenOnceAndOnlyInTheWindow) {
  EXPECT_EQ(greedy({4, 1.9F}, seen(sampling(0), 2, {0, 0, 0})), 0);
  std::vector<int32_t> history(kDefaultRepeatLastN, 2);
  history[0] = 0;
  EXPECT_EQ(greedy({4, 3, 0}, seen(sampling(0), 2, history)), 1);
  history.push_back(2);  // the first token is outside the window
  EXPECT_EQ(greedy({4, 3, 0}, seen(sampling(0), 2, history)), 0);
  EXPECT_EQ(greedy({4, 3}, seen(sampling(0), 100, {})), 0);
  EXPECT_EQ(greedy({4, 3}, seen(sampling(0), 2, {-1, 2, 1 << 30})), 0);  // ids beyond this vocabulary
}

TEST(Sampler, TheWindowOfThePenaltyIsWhatTheSlotSays) {
  const std::vector<int32_t> history = {0, 2, 2, 2};
  for (const auto& [last, token] : {std::pair{3, 0}, {4, 1}, {0, 0}, {-1, 1}, {1 << 30, 1}}) {
    Slot slot = seen(sampling(0), 2, history);
    slot.repeat_last_n = last;
    EXPECT_EQ(greedy({4, 3, 0}, slot), token) << "repeat_last_n " << last;
  }
}

TEST(Sampler, AFrequencyPenaltyIsSubtractedForEachTimeThatATokenWasGenerated) {
  EXPECT_EQ(greedy({4, 2.9F}, generated({0, 0}, 0.5F, 0)), 0);
  EXPECT_EQ(greedy({4, 3.1F}, generated({0, 0}, 0.5F, 0)), 1);
  EXPECT_EQ(greedy({4, 3.1F}, generated({0}, 0.5F, 0)), 0);
  EXPECT_EQ(greedy({3.1F, 4}, generated({0, 0}, -0.5F, 0)), 0);
}

TEST(Sampler, APresencePenaltyIsSubtractedOnceHoweverOften) {
  EXPECT_EQ(greedy({4, 3.4F}, generated({0, 0, 0}, 0, 0.5F)), 0);
  EXPECT_EQ(greedy({4, 3.6F}, generated({0, 0, 0}, 0, 0.5F)), 1);
  EXPECT_EQ(greedy({4, 2.6F}, generated({0, 0}, 0.5F, 0.5F)), 1);  // both penalties
}

TEST(Sampler, PromptTokensDoNotCountAsGenerated) {
  Slot slot = generated({0, 0, 1}, 1, 1);
  slot.prompt_length = 2;
  EXPECT_EQ(greedy({4, 3.5F, 3}, slot), 0);
  slot.prompt_length = 1;
  EXPECT_EQ(greedy({4, 3.5F, 3}, slot), 2);
  slot.prompt_length = 7;  // nothing was generated
  EXPECT_EQ(greedy({4, 3.5F, 3}, slot), 0);
}

TEST(Sampler, FrequencyAndPresenceLookAtAllThatWasGenerated) {
  std::vector<int32_t> history(1000, 2);
  history[0] = 0;
  EXPECT_EQ(greedy({4, 3.5F, 0}, generated(history, 0, 1)), 1);
}

TEST(Sampler, ABiasIsAddedToItsLogitBeforeThePenalties) {
  Slot slot = sampling(0);
  slot.biases = {{2, 3}, {0, -1}};
  EXPECT_EQ(greedy({4, 3.5F, 2}, slot), 2);
  slot.biases = {{0, 1}};
  slot.tokens = {0};
  slot.repetition_penalty = 2;
  EXPECT_EQ(greedy({4, 2.4F}, slot), 0);  // (4 + 1) / 2
  EXPECT_EQ(greedy({4, 2.6F}, slot), 1);
  slot.repetition_penalty = 1;
  slot.biases = {{-1, 9}, {2, 9}, {1 << 30, 9}};  // beyond this vocabulary
  EXPECT_EQ(greedy({4, 3}, slot), 0);
}

TEST(Sampler, ABiasOfMinusAHundredKeepsATokenFromBeingDrawn) {
  Slot slot = sampling(1);
  slot.biases = {{1, -100}};
  EXPECT_EQ(support({1, 5, 1}, slot), (std::set<int32_t>{0, 2}));
}

TEST(Sampler, StopTokensAreNotDrawnBeforeTheirFirstPosition) {
  for (const float temperature : {0.0F, 1.0F}) {
    Slot slot = sampling(temperature);
    slot.num_stop_tokens = 2;
    slot.stop_tokens[0] = 1;
    slot.stop_tokens[1] = 3;
    slot.first_stop = 7;
    for (uint32_t position = 0; position < 7; ++position) {
      EXPECT_EQ(draw({1, 30, 2, 40}, slot, position).token % 2, 0) << position;
    }
    EXPECT_EQ(draw({1, 30, 2, 40}, slot, 7).token, 3);
  }
}

// Also if rounding leaves the sum of the probabilities below the draw.
TEST(Sampler, WhatHasNoProbabilityIsNeverDrawn) {
  Slot slot = sampling(1);
  slot.num_stop_tokens = 1;
  slot.stop_tokens[0] = 70000;
  slot.first_stop = 1U << 30;
  Logits logits(70001, 0.0F);
  for (uint32_t position = 0; position < 200; ++position)
    EXPECT_NE(draw(logits, slot, position).token, 70000);
}

// Without an extra, its fields are not read.
TEST(Sampler, ExtrasSayWhatASlotAsksFor) {
  EXPECT_EQ(extras_of({}), 0U);
  const auto extras = [](auto&& change) {
    SequenceSlot slot;
    change(slot);
    return extras_of(slot);
  };
  EXPECT_EQ(extras([](SequenceSlot& s) { s.repetition_penalty = 2; }), kAdjustsLogits | kKeepsHistory);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.repetition_penalty = 2, s.repeat_last_n = 0; }), 0U);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.presence_penalty = -1; }), kAdjustsLogits | kKeepsHistory);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.frequency_penalty = 1; }), kAdjustsLogits | kKeepsHistory);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.num_biases = 1; }), kAdjustsLogits);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.first_stop = 1; }), 0U);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.first_stop = s.num_stop_tokens = 1; }), kAdjustsLogits);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.num_top = 1; }), kListsTop);
  EXPECT_EQ(extras([](SequenceSlot& s) { s.masked = 1; }), kMasksTokens);
}

// A mask has a bit for each token, 32 in a word.
TEST(Sampler, AMaskSaysWhichTokensAreDrawn) {
  Slot slot = sampling(1);
  slot.mask = {0b10110};
  EXPECT_EQ(support({1, 1, 1, 1, 1, 1}, slot), (std::set<int32_t>{1, 2, 4}));
  slot.temperature = 0;
  EXPECT_EQ(greedy({9, 1, 2, 9, 0, 9}, slot), 2);
  slot.mask = {0, 0, 1U << 6};
  EXPECT_EQ(greedy(Logits(90, 0), slot), 70);
}

TEST(Sampler, AMaskComesAfterBiasesAndBeforeTopK) {
  Slot slot = sampling(1);
  slot.mask = {0b0110};
  slot.biases = {{0, 100}, {2, 5}};
  slot.top_k = 1;
  EXPECT_EQ(support({9, 3, 1, 9}, slot), (std::set<int32_t>{2}));
}

TEST(Sampler, TheLogProbabilityIsThatWithoutTheMask) {
  const Logits logits = {3, 1, 2};
  Slot slot = sampling(0);
  slot.mask = {0b010};
  const SampledToken drawn = draw(logits, slot);
  EXPECT_EQ(drawn.token, 1);
  EXPECT_NEAR(drawn.log_probability, std::log(softmax(logits)[1]), 1e-6);
}

TEST(ListTop, HasTheLikeliestTokensOfTheLogitsAsTheyCame) {
  const Logits logits = {0.5F, 2, -1, 2, 1};
  const std::vector<double> p = softmax(logits);
  std::vector<Candidate> candidates;
  TopTokens top;
  ASSERT_EQ(list_top(logits, 4, candidates, top), 4U);
  const std::vector<int32_t> expected = {1, 3, 4, 0};  // equal ones by lowest id
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(top.token[i].token, expected[i]);
    EXPECT_NEAR(top.token[i].log_probability, std::log(p[static_cast<size_t>(expected[i])]), 1e-6);
  }
  const SampledToken drawn = draw(logits, sampling(0));
  EXPECT_EQ(drawn.token, top.token[0].token);
  EXPECT_EQ(drawn.log_probability, top.token[0].log_probability);  // bit for bit
}

TEST(ListTop, HasNoMoreThanTheVocabularyAndTwenty) {
  std::vector<Candidate> candidates;
  TopTokens top;
  EXPECT_EQ(list_top(Logits{1, 2, 3}, 20, candidates, top), 3U);
  EXPECT_EQ(list_top(Logits(100, 1), 1000, candidates, top), kMaxTopTokens);
  EXPECT_EQ(list_top(Logits{1, 2, 3}, 0, candidates, top), 0U);
}

TEST(Sampler, PenaltyComesBeforeTopK) {
  Slot slot = seen(sampling(1), 2, {0});
  slot.top_k = 1;
  EXPECT_EQ(support({4, 3, 1}, slot), (std::set<int32_t>{1}));
}

TEST(Sampler, TopKKeepsTheLargestAndTheLowestIdsAmongEquals) {
  Slot slot = sampling(1);
  slot.top_k = 2;
  EXPECT_EQ(support({1, 3, 2, 0}, slot), (std::set<int32_t>{1, 2}));
  EXPECT_EQ(support({1, 1, 1, 1}, slot), (std::set<int32_t>{0, 1}));
  for (const int32_t off : {0, -1, 4, 5, std::numeric_limits<int32_t>::max()}) {
    slot.top_k = off;
    EXPECT_EQ(support({1, 3, 2, 1}, slot).size(), 4U) << "top_k " << off;
  }
}

TEST(Sampler, TopPKeepsTheShortestPrefixThatReachesIt) {
  const Logits logits = logits_of({0.1, 0.5, 0.15, 0.25});
  Slot slot = sampling(1);
  const std::map<float, std::set<int32_t>> expected = {{1e-30F, {1}},      {0.49F, {1}},
                                                       {0.51F, {1, 3}},    {0.74F, {1, 3}},
                                                       {0.76F, {1, 2, 3}}, {1.0F, {0, 1, 2, 3}}};
  for (const auto& [p, tokens] : expected) {
    slot.top_p = p;
    EXPECT_EQ(support(logits, slot), tokens) << "top_p " << p;
  }
  slot.top_p = 0;
  EXPECT_EQ(support(logits, slot), (std::set<int32_t>{1}));  // one token always remains
}

TEST(Sampler, TopPLooksAtWhatTopKLeft) {
  Slot slot = sampling(1);
  slot.top_p = 0.6F;
  EXPECT_EQ(support(logits_of({0.5, 0.3, 0.2}), slot), (std::set<int32_t>{0, 1}));
  slot.top_k = 2;  // 0.5 of 0.8 exceeds 0.6
  EXPECT_EQ(support(logits_of({0.5, 0.3, 0.2}), slot), (std::set<int32_t>{0}));
}

TEST(Sampler, MinPKeepsAShareOfTheLargestProbability) {
  const Logits logits = logits_of({0.5, 0.3, 0.15, 0.05});
  Slot slot = sampling(1);
  const std::map<float, std::set<int32_t>> expected = {{0.0F, {0, 1, 2, 3}}, {0.09F, {0, 1, 2, 3}},
                                                       {0.11F, {0, 1, 2}},   {0.31F, {0, 1}},
                                                       {0.61F, {0}},         {1.0F, {0}}};
  for (const auto& [p, tokens] : expected) {
    slot.min_p = p;
    EXPECT_EQ(support(logits, slot), tokens) << "min_p " << p;
  }
  slot.min_p = 1;
  EXPECT_EQ(support({2, 2, 1}, slot),
            (std::set<int32_t>{0, 1}));  // tokens equal to the largest always remain
}

TEST(Sampler, FiltersLookAtTheUntemperedProbabilities) {
  const Logits logits = logits_of({0.8, 0.1, 0.06, 0.04});
  Slot slot = sampling(50);  // nearly uniform if it were applied first
  slot.top_p = 0.75F;
  EXPECT_EQ(support(logits, slot), (std::set<int32_t>{0}));
  slot.top_p = 1;
  slot.min_p = 0.1F;
  EXPECT_EQ(support(logits, slot), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, FrequenciesAreTheSoftmax) {
  constexpr uint32_t kDraws = 100000;
  const Logits logits = {0.3F, -1, 2, 1.1F, 0, -3, 1.9F, 0.5F};
  for (const float temperature : {0.5F, 1.0F, 2.0F}) {
    for (const uint64_t seed : {1ULL, 0x123456789abcdefULL}) {
      Slot slot = sampling(temperature);
      slot.seed = seed;
      expect_frequencies(frequencies(logits, slot, kDraws), softmax(logits, temperature));
    }
  }
}

TEST(Sampler, FrequenciesAfterTheFiltersAreRenormalised) {
  constexpr uint32_t kDraws = 100000;
  Slot slot = seen(sampling(2), 1.5F, {0});
  slot.top_k = 3;
  // Penalised, 3 becomes 2: of 2, 2.5, 1, 0.5 the last is dropped.
  expect_frequencies(frequencies({3, 2.5F, 1, 0.5F}, slot, kDraws), [] {
    std::vector<double> p = softmax({2, 2.5F, 1}, 2);
    p.push_back(0);
    return p;
  }());
}

TEST(Sampler, LargeTemperatureIsUniformAndTinyOneIsGreedy) {
  constexpr uint32_t kDraws = 50000;
  expect_frequencies(frequencies({9, -9, 0, 3}, sampling(1e30F), kDraws), {0.25, 0.25, 0.25, 0.25});
  for (const float tiny : {1e-3F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(support({1, 1.5F, 1.4F}, sampling(tiny)), (std::set<int32_t>{1}));
  }
}

TEST(Sampler, ADrawDependsOnSeedSequenceAndPositionAlone) {
  const Logits logits(1000, 0.0F);
  Slot slot = sampling(1);
  const int32_t token = draw(logits, slot, 5).token;
  EXPECT_EQ(draw(logits, slot, 5).token, token);
  Slot other = slot;
  other.end_position = 99;
  other.num_stop_tokens = 3;
  other.tokens = std::vector<int32_t>(40, 1);
  EXPECT_EQ(draw(logits, other, 5).token, token);
  std::set<int32_t> tokens = {token};
  tokens.insert(draw(logits, slot, 6).token);
  slot.sequence = 1;
  tokens.insert(draw(logits, slot, 5).token);
  slot.seed += uint64_t{1} << 40;
  tokens.insert(draw(logits, slot, 5).token);
  EXPECT_EQ(tokens.size(), 4U);
}

TEST(Sampler, NanCountsAsTheSmallest) {
  EXPECT_EQ(greedy({kNan, -5, kNan}), 1);
  EXPECT_EQ(greedy({kNan, -kInfinity, 0}), 2);
  EXPECT_EQ(support({kNan, 1, kNan, 1}, sampling(1)), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, MinusInfinityEverywhereButOneLeavesThatOne) {
  for (const float temperature : {0.0F, 0.7F, 1e30F}) {
    Slot slot = sampling(temperature);
    const Logits logits = {-kInfinity, -kInfinity, -3, -kInfinity};
    EXPECT_EQ(support(logits, slot), (std::set<int32_t>{2}));
    slot = seen(slot, 1.3F, {0, 2});
    EXPECT_EQ(support(logits, slot), (std::set<int32_t>{2}));
  }
}

// If a model's logits overflow, a token of the vocabulary is still drawn.
TEST(Sampler, InfiniteLogitsAreDrawnAlike) {
  struct Case {
    Logits logits;
    std::set<int32_t> tokens;
  };
  const std::vector<Case> cases = {{{1, kInfinity, 0}, {1}},
                                   {{kInfinity, 3, kInfinity, kNan}, {0, 2}},
                                   {{-kInfinity, -kInfinity, -kInfinity}, {0, 1, 2}},
                                   {{kNan, kNan}, {0, 1}}};
  for (const Case& c : cases) {
    EXPECT_EQ(support(c.logits, sampling(1)), c.tokens);
    EXPECT_EQ(greedy(c.logits), *c.tokens.begin());
  }
}

TEST(Sampler, TheLogProbabilityIsNanWhereALogitIsNotFinite) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const Logits& logits : {Logits{bad, 1, 1}, Logits{1, 2, bad}, Logits{bad, bad}, Logits{bad}}) {
      EXPECT_TRUE(std::isnan(draw(logits, sampling(0)).log_probability));
      EXPECT_TRUE(std::isnan(draw(logits, seen(sampling(1), 1.3F, {0})).log_probability));
    }
  }
}

TEST(Sampler, TheLogProbabilityIsNeverNanWhereAllLogitsAreFinite) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const Logits& logits : {Logits{kMost, -kMost}, Logits{-kMost, -kMost}, Logits{0, 1e-45F}}) {
    EXPECT_FALSE(std::isnan(draw(logits, sampling(0)).log_probability));
    EXPECT_FALSE(std::isnan(draw(logits, sampling(1e30F)).log_probability));
  }
}

TEST(Sampler, LogProbabilityIsTheLogSoftmaxOfTheLogitsAsTheyCame) {
  const Logits logits = {0.3F, -1, 2, 1.1F, 0, -30, 1.9F, 40};
  const std::vector<double> p = softmax(logits);
  std::set<int32_t> met;
  for (uint32_t position = 0; position < 2000; ++position) {
    Slot slot = seen(sampling(20), 3, {7});
    slot.top_k = 7;
    const SampledToken t = draw(logits, slot, position);
    EXPECT_NEAR(t.log_probability, std::log(p[static_cast<size_t>(t.token)]), 1e-5);
    met.insert(t.token);
  }
  EXPECT_EQ(met.size(), 7U);
}

TEST(Sampler, LogProbabilityStaysAccurateInALargeVocabulary) {
  Logits logits(128256, 0.0F);
  logits[77777] = 1e-3F;
  EXPECT_NEAR(draw(logits, sampling(0)).log_probability, 1e-3 - std::log(128255 + std::exp(1e-3)), 1e-5);
}

TEST(ScoreToken, GivesTheLogProbabilityThatADrawWouldHave) {
  const Logits logits = {0.5F, -1, 3, 2.25F};
  std::vector<Candidate> candidates;
  TopTokens top;
  ASSERT_EQ(list_top(logits, 4, candidates, top), 4u);
  for (const SampledToken& listed : top.token | std::views::take(4)) {
    const SampledToken scored = score_token(logits, listed.token);
    EXPECT_EQ(scored.token, listed.token);
    EXPECT_EQ(scored.log_probability, listed.log_probability) << "bit for bit";
  }
  EXPECT_EQ(score_token(logits, greedy(logits)).log_probability, draw(logits, sampling(0)).log_probability);
  EXPECT_TRUE(std::isnan(score_token(std::vector<float>{1, kInfinity}, 0).log_probability));
}

}  // namespace
}  // namespace serval::testing
