// The largest number of sequences that a program supports decode together on a GPU. Each draws the same
// tokens, from logits with the same bits, as it does alone.
#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <vector>

#include "gtest/gtest.h"

#include "tests/device/logit_walk.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSequences = kLargestSequences;
constexpr uint32_t kTokens = 32;  // for each sequence
constexpr uint32_t kContext = 64;
constexpr uint32_t kBeginTogether = 64;

struct Drawn {
  int32_t token;
  uint64_t logits;  // hash
  friend bool operator==(const Drawn&, const Drawn&) = default;
};
using Answer = std::vector<Drawn>;

BackendOptions options_of(uint32_t sequences) {
  BackendOptions options;
  options.limits.context = kContext;
  options.limits.sequences = sequences;
  options.limits.batch_invariant = true;
  return options;
}

Answer alone(LogitWalk& walk, uint32_t sequence) {
  walk.begin(0, sequence);
  Answer answer;
  for (uint32_t t = 0; t < kTokens; ++t) {
    walk.run();
    answer.push_back({walk.token(0), walk.hash(0)});
  }
  walk.end(0);
  return answer;
}

// With each pass another 64 sequences begin until all 1,024 run; they end in the same order. So rows are at
// different positions, and passes of 64, 128, 192, … rows run each of the programs.
std::vector<Answer> together(LogitWalk& walk) {
  std::vector<Answer> answers(kSequences);
  const uint32_t passes = (kSequences - 1) / kBeginTogether + kTokens;
  uint32_t most = 0;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    const auto first_pass = [](uint32_t row) { return row / kBeginTogether; };
    const auto is_active = [&](uint32_t row) {
      return pass >= first_pass(row) && pass < first_pass(row) + kTokens;
    };
    uint32_t active = 0;
    for (uint32_t row = 0; row < kSequences; ++row) {
      if (pass == first_pass(row)) walk.begin(row, row);
      if (pass == first_pass(row) + kTokens) walk.end(row);
      active += is_active(row) ? 1 : 0;
    }
    walk.run();
    most = std::max(most, active);
    for (uint32_t row = 0; row < kSequences; ++row) {
      if (is_active(row)) answers[row].push_back({walk.token(row), walk.hash(row)});
    }
  }
  EXPECT_EQ(most, kSequences);
  EXPECT_EQ(walk.program().limits.rows, kSequences) << "the last pass has the last row";
  return answers;
}

TEST(ManySequences, DrawTogetherWhatTheyDrawAlone) {
  const Walked walked = bundled_model(kSequences, kTokens);
  LogitWalk many(walked, options_of(kSequences));
  const std::vector<Answer> answers = together(many);
  size_t different = 0;
  std::vector<uint64_t> hashes;
  for (uint32_t s = 0; s < kSequences; ++s) {
    different += alone(many, s) == answers[s] ? 0 : 1;
    for (const Drawn& drawn : answers[s]) hashes.push_back(drawn.logits);
  }
  EXPECT_EQ(different, 0U) << "of " << kSequences << " sequences";
  ASSERT_EQ(hashes.size(), size_t{kSequences} * kTokens);
  std::ranges::sort(hashes);
  EXPECT_GT(std::unique(hashes.begin(), hashes.end()) - hashes.begin(),
            static_cast<ptrdiff_t>(hashes.size() / 2))
      << "or nothing is compared";

  LogitWalk few(walked, options_of(kDefaultSequences));
  for (uint32_t s = 0; s < kSequences; s += 37)
    EXPECT_TRUE(alone(few, s) == answers[s]) << "in programs for 16 sequences: " << s;
}

}  // namespace
}  // namespace serval::testing
