// Tokens of the bundled model, and of random ones with other head sizes, with each logit vector reduced to a
// hash: the bits do not depend on the run, the SMs or the batch.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/torch/teacher_forcing.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/device/logit_walk.h"
#include "tests/llama/tiny_model.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSequences = 32;
constexpr uint32_t kTokensEach = 313;  // past the first leaf of attention; 10,016 in total
constexpr uint32_t kContext = 320;

BackendOptions options_of(uint32_t sms = 0) {
  BackendOptions options;
  options.limits.context = kContext;
  options.sms = sms;
  return options;
}

const Walked& bundled() {
  static const Walked made = bundled_model(kSequences, kTokensEach);
  return made;
}

const std::vector<uint64_t>& expected() {
  static const std::vector<uint64_t> made = LogitWalk(bundled(), options_of()).hashes(1);
  return made;
}

void expect_these(const Walked& walked, const std::vector<uint64_t>& expected, const BackendOptions& options,
                  uint32_t at_once) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<uint64_t> found = LogitWalk(walked, options).hashes(at_once);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(found.size(), expected.size());
  size_t different = 0;
  for (size_t i = 0; i < found.size(); ++i) different += found[i] != expected[i] ? 1 : 0;
  EXPECT_EQ(different, 0U) << "of " << found.size() << " logit vectors";
  fmt::print("[ figures  ] {} logit vectors in {:.1f} s\n", found.size(), took.count());
}
void expect_these(const std::vector<uint64_t>& expected, const BackendOptions& options,
                  uint32_t at_once = 1) {
  expect_these(bundled(), expected, options, at_once);
}

void expect_the_same(const BackendOptions& options, uint32_t at_once = 1) {
  expect_these(expected(), options, at_once);
}

void expect_different_tokens(std::vector<uint64_t> hashes) {
  std::ranges::sort(hashes);
  const auto end = std::unique(hashes.begin(), hashes.end());
  EXPECT_GT(end - hashes.begin(), static_cast<ptrdiff_t>(hashes.size() * 9 / 10)) << "or nothing is compared";
}

TEST(Determinism, TokensDiffer) {
  expect_different_tokens(expected());
}

TEST(Determinism, RunsAgainToTheSameBits) {
  for (int run = 1; run < 3; ++run) expect_the_same(options_of());
}

TEST(Determinism, PolicyDoesNotShow) {
  for (const Policy policy : kPolicies) {
    SCOPED_TRACE(name_of(policy));
    BackendOptions options = options_of();
    options.schedule.policy = policy;
    expect_the_same(options);
  }
}

TEST(Determinism, NumberOfSmsDoesNotShow) {
  for (const uint32_t sms : {1U, 7U}) {
    SCOPED_TRACE(sms);
    expect_the_same(options_of(sms));
  }
}

TEST(Determinism, GlobalQueueDoesNotShow) {
  BackendOptions options = options_of();
  options.schedule.queue_kind = QueueKind::kGlobal;
  expect_the_same(options);
}

// Each batch size has its own kernel (instructions/sm90/device_kernel.cuh).
TEST(Determinism, BatchDoesNotShow) {
  for (const uint32_t batch : {4U, 8U, 16U}) {
    SCOPED_TRACE(batch);
    expect_the_same(options_of(), batch);
  }
}

// Programs that multiply tiles of rows; all sequences in one batch, in the kernels for up to 64 rows.
BackendOptions options_of_tiles(uint32_t sms = 0) {
  BackendOptions options = options_of(sms);
  options.limits.sequences = kSequences;
  options.limits.batch_invariant = true;
  return options;
}

const std::vector<uint64_t>& expected_of_tiles() {
  static const std::vector<uint64_t> made = LogitWalk(bundled(), options_of_tiles()).hashes(kSequences);
  return made;
}

TEST(DeterminismOfTiles, RunsAgainToTheSameBits) {
  for (int run = 1; run < 3; ++run) expect_these(expected_of_tiles(), options_of_tiles(), kSequences);
}

TEST(DeterminismOfTiles, BatchDoesNotShow) {
  for (const uint32_t batch : {1U, 8U}) {
    SCOPED_TRACE(batch);
    expect_these(expected_of_tiles(), options_of_tiles(), batch);
  }
}

// Passes of more than one row run the program for up to 256 rows, in the kernels of large tiles.
TEST(DeterminismOfTiles, KernelDoesNotShow) {
  BackendOptions options = options_of_tiles();
  options.limits.rows = 256;
  options.row_classes = {1};
  expect_these(expected_of_tiles(), options, kSequences);
}

TEST(DeterminismOfTiles, PolicyDoesNotShow) {
  for (const Policy policy : kPolicies) {
    SCOPED_TRACE(name_of(policy));
    BackendOptions options = options_of_tiles();
    options.schedule.policy = policy;
    expect_these(expected_of_tiles(), options, kSequences);
  }
}

TEST(DeterminismOfTiles, NumberOfSmsDoesNotShow) {
  for (const uint32_t sms : {1U, 7U}) {
    SCOPED_TRACE(sms);
    expect_these(expected_of_tiles(), options_of_tiles(sms), kSequences);
  }
}

TEST(DeterminismOfTiles, GlobalQueueDoesNotShow) {
  BackendOptions options = options_of_tiles();
  options.schedule.queue_kind = QueueKind::kGlobal;
  expect_these(expected_of_tiles(), options, kSequences);
}

// Models with heads of 128 channels and with head norms: 5,008 tokens each.
struct Heads {
  const char* name;
  LlamaConfig config;
  friend void PrintTo(const Heads& c, std::ostream* out) { *out << c.name; }
};

class DeterminismOfHeads : public ::testing::TestWithParam<Heads> {
 protected:
  static constexpr uint32_t kTogether = 16;

  static BackendOptions options_of_batch(uint32_t sms = 0) {
    BackendOptions options = options_of(sms);
    options.limits.batch_invariant = true;
    return options;
  }
  std::vector<uint64_t> hashes(const BackendOptions& options, uint32_t at_once) const {
    return LogitWalk(walked_, options).hashes(at_once);
  }
  // Logits of a text that is read in pieces of `piece` tokens.
  std::vector<float> logits_of_text(uint32_t piece, uint32_t sms = 0) const {
    BackendOptions options = options_of_batch(sms);
    options.limits.rows = piece;
    const auto backend = make_device_backend(walked_.config, *walked_.weights(walked_.config), options);
    return teacher_force(*backend, random_tokens(walked_.config, kTokensEach, 1));
  }

  const Walked walked_{GetParam().config,
                       [](const LlamaConfig& config) { return make_random_weights(config, 3); }, kTogether,
                       kTokensEach};
};
INSTANTIATE_TEST_SUITE_P(Of, DeterminismOfHeads,
                         ::testing::Values(Heads{"HeadsOf128", tiny_large_heads_config()},
                                           Heads{"HeadsOf128WithNorms", tiny_head_norms_config()}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(DeterminismOfHeads, RunsBatchesAndNumberOfSmsDoNotShow) {
  const std::vector<uint64_t> alone = hashes(options_of(), 1);
  expect_different_tokens(alone);
  for (int run = 1; run < 3; ++run) expect_these(walked_, alone, options_of(), 1);
  for (const uint32_t batch : {4U, 8U, kTogether}) expect_these(walked_, alone, options_of(), batch);
  for (const uint32_t sms : {1U, 7U}) expect_these(walked_, alone, options_of(sms), kTogether);
}

TEST_P(DeterminismOfHeads, RunsBatchesAndNumberOfSmsDoNotShowInTiles) {
  const BackendOptions options = options_of_batch();
  const std::vector<uint64_t> together = hashes(options, kTogether);
  expect_different_tokens(together);
  for (int run = 1; run < 3; ++run) expect_these(walked_, together, options, kTogether);
  for (const uint32_t batch : {1U, 8U}) expect_these(walked_, together, options, batch);
  for (const uint32_t sms : {1U, 7U}) expect_these(walked_, together, options_of_batch(sms), kTogether);
  // Passes of more than one row run the program for up to 256 rows, in the kernels of large tiles.
  BackendOptions large = options;
  large.limits.rows = 256;
  large.row_classes = {1};
  expect_these(walked_, together, large, kTogether);
}

// Uses the kernels for prompts, of small and of large tiles.
TEST_P(DeterminismOfHeads, RunsAndNumberOfSmsDoNotShowInPrompts) {
  const std::vector<float> expected = logits_of_text(64);
  for (const uint32_t piece : {64U, 300U}) {
    SCOPED_TRACE(piece);
    for (int run = 0; run < 3; ++run) EXPECT_TRUE(logits_of_text(piece) == expected) << "run " << run;
    for (const uint32_t sms : {1U, 7U}) EXPECT_TRUE(logits_of_text(piece, sms) == expected) << sms << " SMs";
  }
}

// Uses one GPU for each rank if there are enough, else two GPUs, or one.
void share(BackendOptions& options, uint32_t ranks) {
  options.limits.ranks = ranks;
  options.gpus = gpus_of_ranks(ranks);
}

TEST(DeterminismOfRanks, RunsAgainAndInBatchesToTheSameBits) {
  for (const uint32_t ranks : {2U, 4U}) {
    SCOPED_TRACE(ranks);
    BackendOptions options = options_of();
    share(options, ranks);
    const std::vector<uint64_t> expected = LogitWalk(bundled(), options).hashes(1);
    for (int run = 1; run < 3; ++run) expect_these(expected, options);
    expect_these(expected, options, 16);
  }
}

// These exchange partial sums that are rounded to bf16.
TEST(DeterminismOfRanks, TilesRunAgainAndInBatchesToTheSameBits) {
  BackendOptions options = options_of_tiles();
  share(options, 2);
  const std::vector<uint64_t> expected = LogitWalk(bundled(), options).hashes(kSequences);
  for (int run = 1; run < 3; ++run) expect_these(expected, options, kSequences);
  expect_these(expected, options, 8);
}

}  // namespace
}  // namespace serval::testing
