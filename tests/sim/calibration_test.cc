// Accuracy of the calibration: it predicts its own measurements within a tenth, and in the right order.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <vector>

#include "engine/compile/best_policy.h"
#include "engine/compile/measured_pass.h"
#include "models/llama/graph.h"
#include "profiler/sim/simulate.h"
#include "scheduler/compile.h"
#include "tests/scheduler/graphs.h"
#include "vm/base/error.h"

namespace serval {
namespace {

double predicted_us(const MeasuredToken& token) {
  return predict_us(measured_pass(token), h200_sim_parameters());
}

TEST(Calibration, PredictsATokenWithinATenth) {
  int tried = 0;
  for (const MeasuredToken& m : h200_sim_parameters().measured) {
    if (m.sequences != 1) continue;
    EXPECT_NEAR(predicted_us(m), m.us, 0.1 * m.us)
        << m.model << ", " << m.policy << ", context " << m.context;
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

// One H200, serval bench -p 0 -r 3 with -d 4096, -d 32768, -b 8, and other models at -d 128. At that time the
// loader always had three pages in flight.
TEST(Calibration, IsNearTokensThatItWasNotFittedTo) {
  std::vector<MeasuredToken> others = {
      {.model = "llama-3.2-1b", .policy = "list", .context = 4160, .us = 721.7, .what_ifs = {}},
      {.model = "llama-3.2-1b", .policy = "list", .context = 32800, .us = 1025.8, .what_ifs = {}},
      {.model = "llama-3.2-1b",
       .policy = "list",
       .sequences = 8,
       .context = 192,
       .us = 782.9,
       .what_ifs = {}},
      {.model = "llama-3.2-3b", .policy = "list", .context = 160, .us = 1608.9, .what_ifs = {}},
      {.model = "llama-3.1-8b", .policy = "list", .context = 160, .us = 3486.4, .what_ifs = {}}};
  for (MeasuredToken& m : others) {
    m.what_ifs = {"pages_in_flight=3"};
    EXPECT_NEAR(predicted_us(m), m.us, 0.1 * m.us) << m.model << ", " << m.sequences << " x " << m.context;
  }
}

// One H200, serval bench: 64 and 256 sequences from 128 tokens on, 256 passes; a prompt of 2,048.
TEST(Calibration, PredictsPassesOfManyRowsWithin15Percent) {
  const std::vector<MeasuredToken> passes = {
      {.model = "llama-3.2-1b",
       .policy = "list",
       .sequences = 64,
       .context = 256,
       .us = 1289,
       .what_ifs = {}},
      {.model = "llama-3.2-1b",
       .policy = "list",
       .sequences = 256,
       .context = 256,
       .us = 2547,
       .what_ifs = {}},
      {.model = "llama-3.2-1b", .policy = "list", .prompt = 2048, .us = 2048 / 0.2376, .what_ifs = {}},
      {.model = "llama-3.1-8b",
       .policy = "list",
       .sequences = 64,
       .context = 256,
       .us = 5571,
       .what_ifs = {}},
      {.model = "llama-3.1-8b",
       .policy = "list",
       .sequences = 256,
       .context = 256,
       .us = 11762,
       .what_ifs = {}},
      {.model = "llama-3.1-8b", .policy = "list", .prompt = 2048, .us = 2048 / 0.03805, .what_ifs = {}}};
  for (const MeasuredToken& m : passes) {
    const double us = predicted_us(m);
    RecordProperty(fmt::format("{}, {} x {} + {}", m.model, m.sequences, m.context, m.prompt),
                   fmt::format("{:.3f}", us / m.us));
    EXPECT_NEAR(us, m.us, 0.15 * m.us)
        << m.model << ", " << m.sequences << " x " << m.context << " + " << m.prompt;
  }
}

// Simulates only the first pass, which takes at most 0.3 % longer: simulating a second pass of 70B takes
// seconds.
void expect_within_a_tenth(const std::vector<MeasuredToken>& passes) {
  for (const MeasuredToken& m : passes) {
    MeasuredPass pass = measured_pass(m);
    pass.launch.passes = 1;
    const double us = predict_us(pass, h200_sim_parameters());
    ::testing::Test::RecordProperty(
        fmt::format("{}, {} x {} + {}", m.model, m.sequences, m.context, m.prompt),
        fmt::format("{:.3f}", us / m.us));
    EXPECT_NEAR(us, m.us, 0.1 * m.us)
        << m.model << ", " << m.sequences << " x " << m.context << " + " << m.prompt;
  }
}

// Two H200s of one host, serval bench --gpus 2 -d 128. link_us was fitted to the first entry.
TEST(Calibration, PredictsTwoGpusWithinATenth) {
  expect_within_a_tenth(
      {{.model = "llama-3.1-8b", .policy = "list", .context = 192, .gpus = 2, .us = 2117, .what_ifs = {}},
       {.model = "llama-3.1-70b", .policy = "list", .context = 144, .gpus = 2, .us = 16500, .what_ifs = {}},
       {.model = "llama-3.1-8b",
        .policy = "list",
        .sequences = 8,
        .context = 192,
        .gpus = 2,
        .us = 2493,
        .what_ifs = {}},
       {.model = "llama-3.1-8b",
        .policy = "list",
        .sequences = 64,
        .context = 192,
        .gpus = 2,
        .us = 3872,
        .what_ifs = {}}});
}

// Four H200s of one host, serval bench --gpus 4 -d 128 (docs/performance.md).
TEST(Calibration, PredictsFourGpusWithinATenth) {
  expect_within_a_tenth(
      {{.model = "llama-3.1-8b", .policy = "list", .context = 192, .gpus = 4, .us = 1453, .what_ifs = {}},
       {.model = "llama-3.1-70b", .policy = "list", .context = 192, .gpus = 4, .us = 9114, .what_ifs = {}},
       {.model = "llama-3.1-70b",
        .policy = "list",
        .sequences = 8,
        .context = 192,
        .gpus = 4,
        .us = 10838,
        .what_ifs = {}},
       {.model = "llama-3.1-70b",
        .policy = "list",
        .sequences = 64,
        .context = 192,
        .gpus = 4,
        .us = 12928,
        .what_ifs = {}}});
}

bool place_the_same(const MeasuredToken& a, const MeasuredToken& b) {
  return a.model == b.model && a.sequences == b.sequences && a.context == b.context &&
         a.what_ifs == b.what_ifs;
}

// Two placements of the same pass whose measured times differ by more than the scatter.
bool tells_apart(const MeasuredToken& faster, const MeasuredToken& slower) {
  constexpr double kScatter = 0.02;
  return place_the_same(faster, slower) && faster.us < slower.us * (1 - kScatter);
}

TEST(Calibration, RanksPlacementsAsTheGpuDoes) {
  int compared = 0;
  for (const MeasuredToken& a : h200_sim_parameters().measured) {
    for (const MeasuredToken& b : h200_sim_parameters().measured) {
      if (!tells_apart(a, b)) continue;
      EXPECT_LT(predicted_us(a), predicted_us(b)) << a.model << ": " << a.policy << " against " << b.policy;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Calibration, HardlyTellsApartPlacementsThatTheGpuHardlyDoes) {
  int compared = 0;
  for (const MeasuredToken& a : h200_sim_parameters().measured) {
    for (const MeasuredToken& b : h200_sim_parameters().measured) {
      if (&a == &b || !place_the_same(a, b) || tells_apart(a, b) || tells_apart(b, a)) continue;
      EXPECT_NEAR(predicted_us(a) / predicted_us(b), 1, 0.03) << a.policy << " against " << b.policy;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(MeasuredPass, RefusesWhatThereIsNoneOf) {
  EXPECT_THROW(measured_pass({.model = "llama-9", .policy = "list", .what_ifs = {}}), Error);
  EXPECT_THROW(measured_pass({.model = "llama-3.2-1b", .policy = "worst", .what_ifs = {}}), Error);
}

void expect_fastest(const ProgramLimits& limits) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 2);
  const Policy best = best_policy(config, h200_machine(), limits, {});
  const auto us_of = [&](Policy policy) {
    const ValidProgram program = compile_model(config, h200_machine(), limits, {.policy = policy});
    return predict_us(*program, decode_launch(1, CostContext{}.context_tokens, 2), h200_sim_parameters());
  };
  constexpr double kMinDifference = 1e-3;
  for (const Policy other : kPolicies)
    EXPECT_LE(us_of(best), us_of(other) * (1 + kMinDifference)) << name_of(other);
}

TEST(BestPolicy, IsTheOneThatTheSimulatorFindsFastest) {
  expect_fastest({.context = 512});
}

TEST(BestPolicy, IsTheFastestOnSeveralGpusToo) {
  expect_fastest({.context = 512, .ranks = 2});
}

TEST(BestPolicy, WorksForMoreRowsThanSequences) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 1);
  const ProgramLimits limits{.context = 100, .rows = 64, .tile_rows = 256};
  EXPECT_NO_THROW(best_policy(config, testing::machine_of(4), limits, {.pass = {.rows = 64}}));
}

TEST(BestPolicy, WorksForTheShortestContext) {
  const LlamaConfig config = testing::shortened_preset("llama-3.2-1b", 1);
  EXPECT_NO_THROW(best_policy(config, testing::machine_of(4), {.context = 2}, {}));
  EXPECT_NO_THROW(best_policy(config, testing::machine_of(4), {.context = 1}, {}));
}

}  // namespace
}  // namespace serval
