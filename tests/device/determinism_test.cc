// Ten thousand tokens of the bundled model, each logit vector reduced to a hash: the same bits however often,
// wherever and with whomever they are computed.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/llama/configs.h"

namespace serval::testing {
namespace {

constexpr uint32_t kSequences = 32;
constexpr uint32_t kTokensEach = 313;  // past the first leaf of attention; 10,016 in all
constexpr uint32_t kContext = 320;
constexpr float kTemperature = 0.9F;

// FNV-1a over 64-bit words.
uint64_t hash_of(std::span<const float> logits) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float logit : logits) hash = (hash ^ std::bit_cast<uint32_t>(logit)) * 0x100000001b3;
  return hash;
}

BackendOptions options_of(uint32_t sms = 0) {
  BackendOptions options;
  options.limits.context = kContext;
  options.sms = sms;
  return options;
}

class Walk {
 public:
  explicit Walk(const BackendOptions& options)
      : config_(load_config(kModel)),
        backend_(make_device_backend(config_, *open_checkpoint_weights(kModel, config_), options)) {
    std::iota(backend_->state().block_table.begin(), backend_->state().block_table.end(), 0);
  }
  // The hash of the logits of every token of every sequence, `at_once` sequences at a time.
  std::vector<uint64_t> hashes(uint32_t at_once) {
    std::vector<uint64_t> out(size_t{kSequences} * kTokensEach);
    for (uint32_t first = 0; first < kSequences; first += at_once) {
      begin(first, at_once);
      for (uint32_t token = 0; token < kTokensEach; ++token) {
        backend_->run({.passes = 1}, {});
        for (uint32_t r = 0; r < at_once; ++r) {
          out[size_t{first + r} * kTokensEach + token] = hash_of(backend_->logits(static_cast<int>(r)));
        }
      }
    }
    return out;
  }

 private:
  static inline const std::filesystem::path kModel =
      std::filesystem::path(SERVAL_SOURCE_DIR) / "assets" / "serval-stories";

  void begin(uint32_t first, uint32_t count) {
    StateBlock& state = backend_->state();
    for (uint32_t r = 0; r < count; ++r) {
      const uint32_t sequence = first + r;
      state.rows[r] = {
          .active = 1,
          .wants_logits = 1,
          .slot = r,
          .token = static_cast<int32_t>(sequence * 61 % static_cast<uint32_t>(config_.vocab_size)),
          .position = 0};
      state.slots[r] = {
          .seed = 7, .sequence = sequence, .temperature = kTemperature, .end_position = kContext};
    }
  }

  const LlamaConfig config_;
  const std::unique_ptr<Backend> backend_;
};

const std::vector<uint64_t>& expected() {
  static const std::vector<uint64_t> made = Walk(options_of()).hashes(1);
  return made;
}

void expect_these(const std::vector<uint64_t>& expected, const BackendOptions& options,
                  uint32_t at_once = 1) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<uint64_t> found = Walk(options).hashes(at_once);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(found.size(), expected.size());
  size_t different = 0;
  for (size_t i = 0; i < found.size(); ++i) different += found[i] != expected[i] ? 1 : 0;
  EXPECT_EQ(different, 0U) << "of " << found.size() << " logit vectors";
  fmt::print("[ figures  ] {} logit vectors in {:.1f} s\n", found.size(), took.count());
}

void expect_the_same(const BackendOptions& options, uint32_t at_once = 1) {
  expect_these(expected(), options, at_once);
}

TEST(Determinism, TokensDiffer) {
  std::vector<uint64_t> hashes = expected();
  std::sort(hashes.begin(), hashes.end());
  const auto end = std::unique(hashes.begin(), hashes.end());
  EXPECT_GT(end - hashes.begin(), static_cast<ptrdiff_t>(hashes.size() * 9 / 10)) << "or nothing is compared";
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

// Each of these runs in a kernel of its own (instructions/device_kernel.cuh).
TEST(Determinism, BatchDoesNotShow) {
  for (const uint32_t batch : {4U, 8U, 16U}) {
    SCOPED_TRACE(batch);
    expect_the_same(options_of(), batch);
  }
}

// Programs that multiply tiles of rows: all sequences at once, in the kernels for up to 64 rows.
BackendOptions options_of_tiles(uint32_t sms = 0) {
  BackendOptions options = options_of(sms);
  options.limits.sequences = kSequences;
  options.limits.batch_invariant = true;
  return options;
}

const std::vector<uint64_t>& expected_of_tiles() {
  static const std::vector<uint64_t> made = Walk(options_of_tiles()).hashes(kSequences);
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

// Passes of more than one row run the program for up to 256, in the kernels of large tiles.
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

// On as many GPUs, or on two, where there are so many.
void share(BackendOptions& options, uint32_t ranks) {
  options.limits.ranks = ranks;
  options.gpus = gpus_of_ranks(ranks);
}

TEST(DeterminismOfRanks, RunsAgainAndInBatchesToTheSameBits) {
  for (const uint32_t ranks : {2U, 4U}) {
    SCOPED_TRACE(ranks);
    BackendOptions options = options_of();
    share(options, ranks);
    const std::vector<uint64_t> expected = Walk(options).hashes(1);
    for (int run = 1; run < 3; ++run) expect_these(expected, options);
    expect_these(expected, options, 16);
  }
}

// Whose partial sums are rounded to bf16 before they are exchanged.
TEST(DeterminismOfRanks, TilesRunAgainAndInBatchesToTheSameBits) {
  BackendOptions options = options_of_tiles();
  share(options, 2);
  const std::vector<uint64_t> expected = Walk(options).hashes(kSequences);
  for (int run = 1; run < 3; ++run) expect_these(expected, options, kSequences);
  expect_these(expected, options, 8);
}

}  // namespace
}  // namespace serval::testing
