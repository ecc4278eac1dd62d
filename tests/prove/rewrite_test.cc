// Programs that are equivalent to a valid program are valid.
#include "tests/prove/rewrite.h"

#include <array>
#include <fmt/format.h>
#include <mutex>
#include <optional>

#include "gtest/gtest.h"

#include "scheduler/validate.h"
#include "tests/prove/campaign.h"
#include "tests/prove/programs.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSampleRewrites = 100;
constexpr uint32_t kMostAtOnce = 4;
constexpr uint32_t kInterleavings = 4;

TEST(RewriteTest, WhatMeansTheSameIsAcceptedAndRunsClean) {
  const uint32_t count = campaign_size("SERVAL_PROVE_REWRITES", kSampleRewrites);
  std::array<uint32_t, kNumRewrites> applied{};
  std::mutex mutex;
  for_each_seed(count, [&](uint32_t seed) {
    RandomOrder random(seed);
    Program program = small_programs()[random.below(small_programs().size())];
    std::vector<Rewrite> done;
    const size_t wanted = 1 + random.below(kMostAtOnce);
    while (done.size() < wanted) {
      const auto kind = static_cast<Rewrite>(random.below(kNumRewrites));
      std::optional<Program> next = rewrite(program, kind, random);
      if (!next) continue;
      program = std::move(*next);
      done.push_back(kind);
    }
    const std::optional<Violation> violation = validate(program);
    const RandomPasses passes(program, 2, random);
    std::optional<std::string> failure;
    for (uint32_t n = 0; n < kInterleavings && !failure; ++n) {
      CheckedOptions options{.seed = seed + n, .passes = 2, .states = {}};
      if (n % 2 == 1) options.states = passes.views();
      failure = run_checked(program, checked_isa(), options);
    }
    const std::lock_guard lock(mutex);
    for (const Rewrite kind : done) ++applied[static_cast<size_t>(kind)];
    std::string names;
    for (const Rewrite kind : done) names += fmt::format("{}; ", name_of(kind));
    EXPECT_FALSE(violation) << "rewrite " << seed << " (" << names << "): " << violation->message;
    EXPECT_FALSE(failure) << "rewrite " << seed << " (" << names << "): " << *failure;
  });
  fmt::print("{} programs rewritten and accepted\n", count);
  for (int r = 0; r < kNumRewrites; ++r) {
    fmt::print("  {:<36} {:>6}\n", name_of(static_cast<Rewrite>(r)), applied[static_cast<size_t>(r)]);
  }
}

}  // namespace
}  // namespace serval::testing
