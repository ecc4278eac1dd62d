// Compares sampling on the GPU with the host's sampler. Both sum probabilities with their own rounding, so a
// draw on the boundary between two tokens may give either. Such a token is accepted if an evaluation in
// double gives it with parameters moved by kBoundary.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "instructions/sample/device.cuh"
#include "instructions/sample/random.h"
#include "instructions/sample/row/adjust.h"
#include "instructions/sample/sampler.h"
#include "tests/device/run_group_op.cuh"
#include "tests/instructions/scene.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kBoundary = 1e-6;
constexpr double kMostOff = 1e-4;         // of a log-probability
constexpr uint32_t kContext = 5000;       // more tokens than are adjusted at once
constexpr double kMostBoundaries = 0.01;  // fraction of the draws that may be on a boundary

// A row to sample.
struct Case {
  std::vector<float> logits;
  SequenceSlot slot;
  uint32_t position = 0;  // of the row's token; the next position is drawn
  std::vector<int32_t> history = {};
  std::vector<TokenBias> biases = {};
  std::vector<uint32_t> mask = {};  // empty: none
  int32_t target = kNoTarget;       // PassRow::target
};

// The slot with the counts of the case's history, biases and mask.
SequenceSlot slot_of(const Case& c) {
  SequenceSlot slot = c.slot;
  slot.history_length = static_cast<uint32_t>(c.history.size());
  slot.num_biases = static_cast<uint32_t>(c.biases.size());
  slot.masked = c.mask.empty() ? 0 : 1;
  slot.extras = extras_of(slot);
  return slot;
}

// --- the rules of sampler.h in double precision

struct Nudge {
  double u = 0, top_p = 0, min_p = 0;
};

double exact_shortfall(double logit, double largest) {
  return logit == largest ? 0 : logit - largest;
}

float adjusted(const Case& c, const SequenceSlot& slot, int32_t token, float logit) {
  if (!c.mask.empty() && !mask_allows(c.mask, static_cast<uint32_t>(token))) return -kInfinity;
  const auto times_from = [&](uint32_t begin) {
    return static_cast<uint32_t>(std::count(c.history.begin() + begin, c.history.end(), token));
  };
  for (const TokenBias& b : c.biases) logit += b.token == token ? b.bias : 0;
  if (times_from(repetition_begin(slot)) > 0) logit = repetition_penalised(logit, slot.repetition_penalty);
  const uint32_t count = times_from(generation_begin(slot));
  if (count > 0) logit = count_penalised(logit, count, slot.frequency_penalty, slot.presence_penalty);
  const auto* stops = slot.stop_tokens;
  const bool bans = c.position + 1 < slot.first_stop;
  return bans && std::count(stops, stops + slot.num_stop_tokens, token) > 0 ? -kInfinity : logit;
}

// The logits after biases and penalties, NaN as the smallest, in descending order.
std::vector<std::pair<double, int32_t>> ordered(const Case& c) {
  std::vector<std::pair<double, int32_t>> out;
  const SequenceSlot slot = slot_of(c);
  for (size_t t = 0; t < c.logits.size(); ++t) {
    const auto token = static_cast<int32_t>(t);
    const float logit = std::isnan(c.logits[t]) ? -kInfinity : c.logits[t];
    out.emplace_back(slot.extras == 0 ? logit : adjusted(c, slot, token, logit), token);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  return out;
}

int32_t exact_draw(const SequenceSlot& slot, const std::vector<std::pair<double, int32_t>>& order, double u,
                   const Nudge& nudge) {
  size_t keep = slot.top_k > 0 ? std::min(order.size(), static_cast<size_t>(slot.top_k)) : order.size();
  const auto ratio = [&](size_t i, double temperature) {
    return std::exp(exact_shortfall(order[i].first, order[0].first) / temperature);
  };
  const auto total = [&](double temperature) {
    double sum = 0;
    for (size_t i = 0; i < keep; ++i) sum += ratio(i, temperature);
    return sum;
  };
  if (slot.top_p < 1) {
    const double enough = (slot.top_p + nudge.top_p) * total(1);
    size_t i = 0;
    for (double sum = ratio(0, 1); sum < enough && i + 1 < keep; sum += ratio(i, 1)) ++i;
    keep = i + 1;
  }
  if (slot.min_p > 0) {
    size_t i = 1;
    while (i < keep && ratio(i, 1) >= slot.min_p * (1 + nudge.min_p)) ++i;
    keep = i;
  }
  const double target = (u + nudge.u) * total(slot.temperature);
  size_t i = 0;
  for (double sum = ratio(0, slot.temperature); sum <= target && i + 1 < keep;
       sum += ratio(i, slot.temperature)) {
    ++i;
  }
  return order[i].second;
}

// Returns whether the draw is so close to a boundary that this token is acceptable.
bool may_be_drawn(const Case& c, int32_t token) {
  const auto order = ordered(c);
  const double u = uniform(c.slot.seed, c.slot.sequence, c.position + 1);
  for (const double du : {-kBoundary, 0.0, kBoundary}) {
    for (const double dp : {-kBoundary, 0.0, kBoundary}) {
      for (const double dm : {-kBoundary, 0.0, kBoundary}) {
        if (exact_draw(c.slot, order, u, {du, dp, dm}) == token) return true;
      }
    }
  }
  return false;
}

double exact_log_probability(const std::vector<float>& logits, int32_t token) {
  const auto clean = [](float x) { return std::isnan(x) ? -kInfinity : x; };
  double largest = -kInfinity, sum = 0;
  for (const float x : logits) largest = std::max<double>(largest, clean(x));
  for (const float x : logits) sum += std::exp(exact_shortfall(clean(x), largest));
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) return kNan;
  return exact_shortfall(clean(logits[static_cast<size_t>(token)]), largest) - std::log(sum);
}

// --- the GPU

// Memory for rows of one vocabulary.
class Rows {
 public:
  explicit Rows(uint32_t vocab) : vocab_(vocab) {
    using enum TensorKind;
    bench_.program.limits.vocab = vocab;
    bench_.program.limits.max_context = kContext;
    logits_ = bench_.add("logits", DType::kF32, kActivation, kDefaultRows, vocab);
    unit_softmax_ = bench_.add("unit_softmax", DType::kF32, kActivation, kDefaultRows,
                               vocabulary_units(vocab) * kUnitSoftmaxCols);
    rows_ = bench_.add("rows", DType::kBytes, kState, kDefaultRows, sizeof(PassRow));
    slots_ = bench_.add("slots", DType::kBytes, kState, kDefaultSequences, sizeof(SequenceSlot));
    sampled_ = bench_.add("sampled", DType::kBytes, kState, kDefaultRows, sizeof(SampledToken));
    adjustments_ =
        bench_.add("adjustments", DType::kBytes, kState, kDefaultSequences, adjustment_bytes(kContext));
    masks_ = bench_.add("masks", DType::kI32, kState, kDefaultSequences, mask_pitch(vocab));
    top_ = bench_.add("top", DType::kBytes, kState, kDefaultRows, sizeof(TopTokens));
    saved_ = bench_.add("saved", DType::kF32, kActivation, kDefaultRows, saved_cols(vocab, kContext));
  }

  // Top tokens of the last rows that were sampled, from the first row on.
  const TopTokens* top() const { return top_of_first_; }

  // Samples one row for each case, starting at row `first_row`; the other rows do not want logits.
  std::vector<SampledToken> sample(const std::vector<const Case*>& cases, uint32_t first_row = 0) {
    fill(cases, first_row);
    gpu_.upload();
    std::vector<Instruction> records;
    for (uint32_t row = 0; row < kDefaultRows; ++row) {
      records.push_back(make_instruction(Sample{.logits = logits_,
                                                .unit_softmax = unit_softmax_,
                                                .rows = rows_,
                                                .slots = slots_,
                                                .adjustments = adjustments_,
                                                .masks = masks_,
                                                .sampled = sampled_,
                                                .top = top_,
                                                .saved = saved_,
                                                .record = row,
                                                .records = kDefaultRows,
                                                .first_row = row,
                                                .num_rows = 1,
                                                .vocab = vocab_}));
    }
    gpu_.run<Sample>(records, rows_);
    gpu_.download(sampled_);
    gpu_.download(top_);
    expect_unchanged(logits_, vocab_, cases, first_row);
    expect_unchanged(unit_softmax_, vocabulary_units(vocab_) * kUnitSoftmaxCols, cases, first_row);
    top_of_first_ = bench_.data<TopTokens>(top_) + first_row;
    const SampledToken* sampled = bench_.data<SampledToken>(sampled_);
    for (uint32_t row = 0; row < kDefaultRows; ++row) {
      if (row >= first_row && row < first_row + cases.size()) continue;
      EXPECT_EQ(sampled[row].token, -1) << "row " << row << " was not to be sampled";
    }
    return {sampled + first_row, sampled + first_row + cases.size()};
  }

 private:
  // Rows whose logits are adjusted temporarily are restored in the end, unless they have a mask.
  void expect_unchanged(TensorId tensor, size_t cols, const std::vector<const Case*>& cases,
                        uint32_t first_row) {
    const std::vector<std::byte> before = bench_.memory[tensor.index];
    gpu_.download(tensor);
    const size_t pitch = cols * sizeof(float);
    for (uint32_t row = 0; row < kDefaultRows; ++row) {
      const bool is_case = row >= first_row && row < first_row + cases.size();
      if (is_case && !cases[row - first_row]->mask.empty()) continue;
      EXPECT_EQ(std::memcmp(&before[row * pitch], &bench_.memory[tensor.index][row * pitch], pitch), 0)
          << "row " << row;
    }
  }

  void fill_extras(const Case& c, uint32_t slot) {
    const AdjustmentTable<std::byte> table{bench_.data<std::byte>(adjustments_), kContext};
    ASSERT_LE(c.history.size(), kContext);
    ASSERT_LE(c.biases.size(), kMaxLogitBiases);
    std::copy(c.biases.begin(), c.biases.end(), reinterpret_cast<TokenBias*>(table.of(slot)));
    std::copy(c.history.begin(), c.history.end(),
              reinterpret_cast<int32_t*>(table.of(slot) + kHistoryOffset));
    uint32_t* const mask = bench_.data<uint32_t>(masks_) + size_t{slot} * mask_pitch(vocab_);
    std::copy(c.mask.begin(), c.mask.end(), mask);
    mask[mask_words(vocab_)] = kAnyPosition;
  }

  void fill(const std::vector<const Case*>& cases, uint32_t first_row) {
    bench_.poison(sampled_);
    for (uint32_t row = 0; row < kDefaultRows; ++row) bench_.data<PassRow>(rows_)[row] = {};
    for (uint32_t i = 0; i < cases.size(); ++i) {
      const uint32_t row = first_row + i, slot = (row * 5 + 3) % kDefaultSequences;
      std::copy(cases[i]->logits.begin(), cases[i]->logits.end(),
                bench_.data<float>(logits_) + size_t{row} * vocab_);
      bench_.data<SequenceSlot>(slots_)[slot] = slot_of(*cases[i]);
      fill_extras(*cases[i], slot);
      bench_.data<PassRow>(rows_)[row] = {.active = 1,
                                          .wants_logits = 1,
                                          .slot = slot,
                                          .position = cases[i]->position,
                                          .target = cases[i]->target};
    }
    fill_unit_softmax(bench_, logits_, unit_softmax_);
  }

  uint32_t vocab_;
  TensorId logits_, unit_softmax_, rows_, slots_, sampled_, adjustments_, masks_, top_, saved_;
  const TopTokens* top_of_first_ = nullptr;
  Bench bench_;
  GpuBench gpu_{bench_};
};

// Compares the GPU with the host, case by case.
class Judge {
 public:
  void judge(const Case& c, const SampledToken& gpu, const TopTokens& top) {
    judge_draw(c, gpu);
    judge_top(c, top);
  }
  void report(const char* name) const {
    std::printf("[ figures  ] %s: %zu draws, %zu on a boundary, log-probabilities off by %.2g at most\n",
                name, draws_, boundaries_, most_off_);
    EXPECT_LE(static_cast<double>(boundaries_), std::ceil(kMostBoundaries * static_cast<double>(draws_)));
  }

 private:
  void judge_top(const Case& c, const TopTokens& top) {
    TopTokens expected;
    const uint32_t listed = list_top(c.logits, c.slot.num_top, candidates_, expected);
    for (uint32_t i = 0; i < listed; ++i) {
      EXPECT_EQ(top.token[i].token, expected.token[i].token) << describe(c) << ": place " << i;
      judge_probability(c, top.token[i].log_probability, expected.token[i].log_probability);
    }
  }

  void judge_draw(const Case& c, const SampledToken& gpu) {
    ++draws_;
    ASSERT_GE(gpu.token, 0);
    ASSERT_LT(static_cast<size_t>(gpu.token), c.logits.size());
    if (c.target != kNoTarget) {
      EXPECT_EQ(gpu.token, c.target) << describe(c);
      return judge_probability(c, gpu.log_probability, score_token(c.logits, c.target).log_probability);
    }
    const SampledToken host =
        sample_token(c.logits, slot_of(c), c.position + 1, candidates_, {c.biases, c.history, c.mask});
    if (!c.mask.empty() && !mask_allows(c.mask, static_cast<uint32_t>(host.token))) {
      // The mask allows only stop tokens, which are forbidden here: the GPU masks their logits.
      EXPECT_EQ(gpu.token, host.token) << describe(c);
      return;
    }
    double expected = host.log_probability;
    if (gpu.token != host.token) {
      ++boundaries_;
      EXPECT_GT(c.slot.temperature, 0);
      EXPECT_TRUE(may_be_drawn(c, gpu.token))
          << describe(c) << ": host " << host.token << ", GPU " << gpu.token;
      expected = exact_log_probability(c.logits, gpu.token);
    }
    judge_probability(c, gpu.log_probability, expected);
  }

  void judge_probability(const Case& c, float gpu, double expected) {
    if (gpu == expected) return;  // covers infinite values
    if (std::isnan(expected) && std::isnan(gpu)) return;
    const double off = std::abs(gpu - expected);
    EXPECT_LE(off, kMostOff) << describe(c) << ": expected " << expected << ", GPU " << gpu;
    most_off_ = std::max(most_off_, off);
  }

  static std::string describe(const Case& c) {
    const SequenceSlot& s = c.slot;
    return "vocab " + std::to_string(c.logits.size()) + ", seed " + std::to_string(s.seed) + ", position " +
           std::to_string(c.position) + ", temperature " + std::to_string(s.temperature) + ", top_k " +
           std::to_string(s.top_k) + ", top_p " + std::to_string(s.top_p) + ", min_p " +
           std::to_string(s.min_p) + ", penalty " + std::to_string(s.repetition_penalty) + " of the last " +
           std::to_string(s.repeat_last_n) + " of " + std::to_string(c.history.size()) + ", presence " +
           std::to_string(s.presence_penalty) + ", frequency " + std::to_string(s.frequency_penalty) + ", " +
           std::to_string(c.biases.size()) + " biases, top " + std::to_string(s.num_top) +
           (c.mask.empty() ? "" : ", a mask");
  }

  std::vector<Candidate> candidates_;
  size_t draws_ = 0, boundaries_ = 0;
  double most_off_ = 0;
};

// Samples all cases, which share a vocabulary, 16 at a time, and twice: the bits must be equal.
void expect_like_host(const char* name, const std::vector<Case>& cases) {
  Rows rows(static_cast<uint32_t>(cases.front().logits.size()));
  Judge judge;
  for (size_t begin = 0; begin < cases.size(); begin += kDefaultRows) {
    std::vector<const Case*> some;
    for (size_t i = begin; i < std::min(cases.size(), begin + kDefaultRows); ++i) some.push_back(&cases[i]);
    const std::vector<SampledToken> first = rows.sample(some);
    const std::vector<TopTokens> top(rows.top(), rows.top() + some.size());
    const std::vector<SampledToken> again = rows.sample(some);
    for (size_t i = 0; i < some.size(); ++i) {
      const uint32_t listed = std::min(some[i]->slot.num_top, static_cast<uint32_t>(some[i]->logits.size()));
      EXPECT_EQ(std::memcmp(&first[i], &again[i], sizeof(SampledToken)), 0);
      EXPECT_EQ(std::memcmp(&top[i], &rows.top()[i], listed * sizeof(SampledToken)), 0);
      judge.judge(*some[i], first[i], top[i]);
    }
  }
  judge.report(name);
}

// --- random cases

// Normally distributed (Box–Muller).
double normal(Random& random) {
  constexpr double kTwoPi = 6.283185307179586;
  return std::sqrt(-2 * std::log(random.real(1e-300, 1))) * std::cos(random.real(0, kTwoPi));
}

enum class Kind { kModel, kPeaked, kFlat, kTies, kEqual, kRising, kFalling, kHuge, kBroken, kCount };

// Typical of a language model: most tokens far below a few.
void fill_model(Random& random, std::vector<float>& logits) {
  const double spread = random.real(1, 3.5), centre = random.real(-5, 5);
  for (float& x : logits) x = static_cast<float>(centre + spread * normal(random));
  const uint32_t raised = random.below(60);
  for (uint32_t i = 0; i < raised; ++i) {
    logits[random.below(static_cast<uint32_t>(logits.size()))] +=
        static_cast<float>(random.real(0, 4 * spread));
  }
}

std::vector<float> random_logits(Random& random, uint32_t vocab, Kind kind) {
  std::vector<float> logits(vocab);
  fill_model(random, logits);
  const double scale = random.real(0.01, 1);
  switch (kind) {
    case Kind::kPeaked:
      logits[random.below(vocab)] = 60;
      break;
    case Kind::kFlat:
      for (float& x : logits) x *= static_cast<float>(scale * 0.1);
      break;
    case Kind::kTies:
      for (float& x : logits) x = std::round(x * 2) / 2;  // includes -0 and 0
      break;
    case Kind::kEqual:
      std::fill(logits.begin(), logits.end(), logits[0]);
      break;
    case Kind::kRising:
      std::sort(logits.begin(), logits.end());
      break;
    case Kind::kFalling:
      std::sort(logits.begin(), logits.end(), std::greater<>());
      break;
    case Kind::kHuge:
      for (float& x : logits) x *= static_cast<float>(std::pow(10, random.real(0, 38)));
      break;
    case Kind::kBroken:
      for (float& x : logits) {
        if (random.chance(0.1)) x = random.pick<float>({kNan, -kNan, -kInfinity, kInfinity, 0, -0.0F});
        if (x == kInfinity && scale < 0.8) x = -kInfinity;  // most rows have no plus infinity
      }
      if (scale < 0.05) std::fill(logits.begin(), logits.end(), random.pick<float>({kNan, -kInfinity}));
      break;
    default:
      break;
  }
  return logits;
}

// Usually short; sometimes longer than what is adjusted at once.
uint32_t random_length(Random& random) {
  return random.chance(0.05) ? random.below(kContext + 1) : random.below(200);
}

void fill_history(Random& random, Case& c) {
  const auto vocab = static_cast<uint32_t>(c.logits.size());
  c.slot.repetition_penalty = random.pick<float>({1, 1, 1.1F, 1.3F, 2, 0.8F, 10});
  c.slot.repeat_last_n = random.pick<int32_t>({64, 64, 1, 0, 300, -1});
  c.slot.presence_penalty = random.pick<float>({0, 0, 0, 0.5F, -0.5F, 2, -2});
  c.slot.frequency_penalty = random.pick<float>({0, 0, 0, 0.1F, -0.1F, 2, -2});
  c.history.resize(random_length(random));
  c.slot.prompt_length = random.below(static_cast<uint32_t>(c.history.size()) + 2);
  const auto largest = std::max_element(c.logits.begin(), c.logits.end()) - c.logits.begin();
  const uint32_t of = random.chance(0.3) ? std::min(vocab, 10U) : vocab;
  for (int32_t& token : c.history) {
    token = static_cast<int32_t>(random.below(of));
    if (random.chance(0.1)) token = static_cast<int32_t>(largest);
    if (random.chance(0.1)) token = random.pick<int32_t>({-1, 0, static_cast<int32_t>(vocab), 1 << 30});
    if (random.chance(0.1)) token = c.history[0];
  }
}

void fill_biases(Random& random, Case& c) {
  const auto vocab = static_cast<uint32_t>(c.logits.size());
  const uint32_t most = random.pick<uint32_t>({0, 0, 0, 5, kMaxLogitBiases});
  const uint32_t step = random.pick<uint32_t>({1, 1, 4096, 4097}), first = random.below(vocab);
  for (uint32_t i = 0; i < std::min(most, vocab); ++i) {
    const uint32_t token = first + i * step;  // some beyond the vocabulary
    c.biases.push_back({static_cast<int32_t>(token), random.pick<float>({-100, -1, 0.5F, 3, 100})});
  }
  c.slot.num_stop_tokens = random.below(4);
  for (int32_t& token : c.slot.stop_tokens) token = static_cast<int32_t>(random.below(vocab));
  const auto largest = std::max_element(c.logits.begin(), c.logits.end()) - c.logits.begin();
  c.slot.stop_tokens[0] = static_cast<int32_t>(largest);
  c.slot.prompt_length = std::min(c.slot.prompt_length, c.position);
  c.slot.first_stop = random.pick<uint32_t>({0, 0, c.position + 1, c.position + 2, 1U << 30});
}

// Usually few tokens in a row or many scattered ones, as for JSON; at least one has a finite logit if any
// has.
void fill_mask(Random& random, Case& c) {
  const auto vocab = static_cast<uint32_t>(c.logits.size());
  const uint32_t outside = random.pick<uint32_t>({0, 0, 0xffffffff});
  c.mask.assign(mask_words(vocab), outside);
  const uint32_t changes = random.pick<uint32_t>({0, 1, 3, 200, vocab / 10});
  const uint32_t first = random.chance(0.5) ? random.below(vocab) : vocab;
  for (uint32_t i = 0; i < changes; ++i) {
    const uint32_t token = (first < vocab ? first + i : random.below(vocab)) % vocab;
    c.mask[token / kTokensOfMaskWord] ^= 1U << token % kTokensOfMaskWord;
  }
  for (uint32_t tries = 0; tries < 100; ++tries) {
    const uint32_t token = random.below(vocab);
    if (tries < 99 && !std::isfinite(c.logits[token])) continue;
    c.mask[token / kTokensOfMaskWord] |= 1U << token % kTokensOfMaskWord;
    break;
  }
}

Case random_case(Random& random, uint32_t vocab) {
  Case c;
  constexpr auto kKinds = static_cast<uint32_t>(Kind::kCount);
  const Kind kind = random.chance(0.5) ? Kind::kModel : static_cast<Kind>(random.below(kKinds));
  c.logits = random_logits(random, vocab, kind);
  const auto all = static_cast<int32_t>(vocab);
  c.slot.seed = random.bits();
  c.slot.sequence = random.below(100);
  c.position = random.below(100000);
  c.slot.temperature = random.pick<float>({0, -1, 0.1F, 0.7F, 1, 1, 1.5F, 100, 1e-30F});
  c.slot.top_k = random.pick<int32_t>(
      {0, -1, 1, 2, 40, 40, 240, 241, 1000, 5000, all - 1, all, std::numeric_limits<int32_t>::max()});
  c.slot.top_p = random.pick<float>({1, 1, 0.95F, 0.9F, 0.5F, 0.999F, 1e-6F, 0});
  c.slot.min_p = random.pick<float>({0, 0, 0.05F, 0.3F, 1e-6F, 1});
  c.slot.num_top = random.pick<uint32_t>({0, 0, 0, 1, 5, kMaxTopTokens});
  fill_history(random, c);
  if (random.chance(0.5)) fill_biases(random, c);
  if (random.chance(0.3)) fill_mask(random, c);
  if (random.chance(0.2)) c.target = static_cast<int32_t>(random.below(vocab));
  return c;
}

void expect_random_cases_like_host(uint32_t vocab, size_t count) {
  Random random(vocab);
  std::vector<Case> cases;
  for (size_t i = 0; i < count; ++i) cases.push_back(random_case(random, vocab));
  expect_like_host(("vocabulary of " + std::to_string(vocab)).c_str(), cases);
}

SequenceSlot sampling(float temperature) {
  SequenceSlot slot;
  slot.seed = 42;
  slot.temperature = temperature;
  return slot;
}

TEST(SampleOnGpu, DrawsWhatTheHostDrawsFrom17Tokens) {
  SERVAL_NEEDS_GPU();
  expect_random_cases_like_host(17, 4000);
}
TEST(SampleOnGpu, DrawsWhatTheHostDrawsFrom512Tokens) {
  SERVAL_NEEDS_GPU();
  expect_random_cases_like_host(512, 4000);
}
TEST(SampleOnGpu, DrawsWhatTheHostDrawsFrom2048Tokens) {
  SERVAL_NEEDS_GPU();
  expect_random_cases_like_host(2048, 2000);
}
TEST(SampleOnGpu, DrawsWhatTheHostDrawsFrom32000Tokens) {
  SERVAL_NEEDS_GPU();
  expect_random_cases_like_host(32000, 600);
}
TEST(SampleOnGpu, DrawsWhatTheHostDrawsFrom128256Tokens) {
  SERVAL_NEEDS_GPU();
  expect_random_cases_like_host(128256, 320);
}

// Rows of such vocabularies begin at any offset from a 16-byte boundary.
TEST(SampleOnGpu, VocabulariesNeedNotBeMultiplesOfFour) {
  SERVAL_NEEDS_GPU();
  for (const uint32_t vocab : {1U, 2U, 3U, 5U, 1023U, 8191U, 8193U, 16387U}) {
    expect_random_cases_like_host(vocab, 64);
  }
}

TEST(SampleOnGpu, GreedyTakesTheLowestIdAmongEquals) {
  SERVAL_NEEDS_GPU();
  constexpr uint32_t kVocab = 128256;
  Random random(1);
  std::vector<Case> cases;
  for (int i = 0; i < 64; ++i) {
    Case c{std::vector<float>(kVocab, -1), sampling(0)};
    for (uint32_t n = random.between(1, 5); n > 0; --n)
      c.logits[random.below(kVocab)] = i % 2 == 0 ? 3.0F : 0.0F;
    if (i % 2 != 0) c.logits[random.below(kVocab)] = -0.0F;
    cases.push_back(std::move(c));
  }
  expect_like_host("equal logits", cases);
}

// No shortcut applies: no candidate stands out, and every token may be drawn.
TEST(SampleOnGpu, DrawsFromAFlatDistributionOverTheWholeVocabulary) {
  SERVAL_NEEDS_GPU();
  constexpr uint32_t kVocab = 128256;
  Random random(2);
  std::vector<Case> cases;
  for (uint32_t i = 0; i < 48; ++i) {
    Case c{std::vector<float>(kVocab, 0.0F), sampling(i % 3 == 0 ? 0.9F : 1), i};
    if (i % 2 != 0) c.logits = random_logits(random, kVocab, Kind::kFlat);
    if (i % 4 == 2) c.slot.top_p = 0.7F;
    if (i % 8 == 3) c.slot.min_p = 0.5F;
    if (i % 8 == 5) c.slot.top_k = 50000;
    if (i % 8 == 6) c.slot.num_top = kMaxTopTokens;
    cases.push_back(std::move(c));
  }
  expect_like_host("flat distributions", cases);
}

// `advance` relies on this. The units' sums tell, in rows that are summed from them and in others.
TEST(SampleOnGpu, TheLogProbabilityIsNanIfAndOnlyIfALogitIsNotFinite) {
  SERVAL_NEEDS_GPU();
  Random random(4);
  for (const uint32_t vocab : {17U, 2048U, 128256U}) {
    std::vector<Case> cases;
    for (uint32_t i = 0; i < 64; ++i) {
      Case c{random_logits(random, vocab, Kind::kModel), sampling(i % 2 == 0 ? 0 : 1)};
      if (i % 8 < 4) c.logits[random.below(vocab)] = random.pick<float>({kNan, -kNan, kInfinity, -kInfinity});
      if (i % 8 == 4) c.logits[random.below(vocab)] = 100;  // its exponential is infinite
      if (i % 8 == 5) c.logits[random.below(vocab)] = -1e30F;
      cases.push_back(std::move(c));
    }
    Rows rows(vocab);
    for (size_t begin = 0; begin < cases.size(); begin += kDefaultRows) {
      std::vector<const Case*> some;
      for (size_t i = begin; i < begin + kDefaultRows; ++i) some.push_back(&cases[i]);
      const std::vector<SampledToken> sampled = rows.sample(some);
      for (size_t i = 0; i < sampled.size(); ++i) {
        const std::vector<float>& logits = some[i]->logits;
        const bool finite =
            std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
        EXPECT_EQ(std::isnan(sampled[i].log_probability), !finite)
            << "vocab " << vocab << ", case " << begin + i;
      }
    }
  }
}

// A target's log-probability has the bits that it has among the likeliest tokens.
TEST(SampleOnGpu, ATargetIsNotDrawn) {
  SERVAL_NEEDS_GPU();
  constexpr uint32_t kVocab = 2048;
  Random random(5);
  Rows rows(kVocab);
  for (const float temperature : {0.0F, 1.0F}) {
    Case c{random_logits(random, kVocab, Kind::kModel), sampling(temperature)};
    c.slot.num_top = kMaxTopTokens;
    c.biases = {{3, 100}};
    c.target = 0;
    const TopTokens top = (rows.sample({&c}), rows.top()[0]);
    for (const SampledToken& listed : top.token) {
      c.target = listed.token;
      const SampledToken scored = rows.sample({&c})[0];
      EXPECT_EQ(scored.token, listed.token);
      EXPECT_EQ(scored.log_probability, listed.log_probability);
      EXPECT_EQ(std::memcmp(rows.top(), &top, sizeof top), 0);
    }
  }
}

TEST(SampleOnGpu, HoldsTheLargestVocabulary) {
  SERVAL_NEEDS_GPU();
  constexpr uint32_t kVocab = 1U << 24, kLastRow = kDefaultRows - 1;
  Rows rows(kVocab);
  Random random(3);
  Judge judge;
  SampledToken sampled;
  Case c{random_logits(random, kVocab, Kind::kModel), sampling(0)};
  c.logits[kVocab - 1] = 100;
  sampled = rows.sample({&c}, kLastRow)[0];
  judge.judge(c, sampled, rows.top()[0]);
  c.logits[kVocab - 1] = 0;
  c.slot = sampling(1);
  c.slot.top_k = 50;
  sampled = rows.sample({&c}, kLastRow)[0];
  judge.judge(c, sampled, rows.top()[0]);
  c.slot.top_k = 0;
  sampled = rows.sample({&c}, kLastRow)[0];
  judge.judge(c, sampled, rows.top()[0]);
  judge.report("2^24 tokens");
}

TEST(SampleOnGpu, FrequenciesAreTheSoftmax) {
  SERVAL_NEEDS_GPU();
  constexpr uint32_t kVocab = 6, kDraws = 16000;
  Case c{{0.3F, -1, 2, 1.1F, 0, 1.9F}, sampling(1)};
  Rows rows(kVocab);
  std::vector<Case> cases(kDefaultRows, c);
  std::vector<int> counts(kVocab, 0);
  for (uint32_t draw = 0; draw < kDraws; draw += kDefaultRows) {
    std::vector<const Case*> some;
    for (uint32_t i = 0; i < kDefaultRows; ++i) {
      cases[i].position = draw + i;
      some.push_back(&cases[i]);
    }
    for (const SampledToken& t : rows.sample(some)) ++counts[static_cast<size_t>(t.token)];
  }
  constexpr double kSigmas = 5;
  for (uint32_t t = 0; t < kVocab; ++t) {
    const double p = std::exp(exact_log_probability(c.logits, static_cast<int32_t>(t)));
    EXPECT_NEAR(counts[t], p * kDraws, kSigmas * std::sqrt(p * (1 - p) * kDraws)) << "token " << t;
  }
}

}  // namespace
}  // namespace serval::testing
