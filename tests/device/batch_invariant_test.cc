// Random requests on a GPU with EngineOptions::batch_invariant: a request's results depend on the request
// alone.
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "serval/engine.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/engine/random_requests.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {
namespace {

constexpr int kContext = 3'200;
constexpr int kLongestPrompt = 3'000;

class DeviceRequests : public RandomRequests {
 protected:
  DeviceRequests() : RandomRequests(kContext, kLongestPrompt) {}

  // Random weights: only the shape matters. Its matrices are summed in 1, 2 and 4 K splits.
  static LoadEngine engine(bool batch_invariant, int batch_tokens = 2048, const std::vector<int>& gpus = {}) {
    return [=](const Size& size) {
      constexpr uint64_t kKvBytesPerToken = 32'768;
      EngineOptions options;
      options.model = "llama-3.2-1b";
      options.random_weights = 1;
      options.backend = "device";
      options.context = kContext;
      options.max_sequences = size.sequences;
      options.max_batch_tokens = batch_tokens;
      options.batch_invariant = batch_invariant;
      options.kv_cache_memory = size.kv_blocks * kKvBlockTokens * kKvBytesPerToken;
      options.gpus = gpus;
      Engine engine = Engine::load(options);
      EXPECT_EQ(engine.info().kv_bytes_per_token, kKvBytesPerToken);
      return engine;
    };
  }
};

TEST_F(DeviceRequests, GetTheirBitsIfBatchInvariant) {
  prepare(300, engine(true));
  run(engine(true));
  EXPECT_GT(stats().cached_tokens, 0U);
  EXPECT_GT(ends(Finish::kCancelled), 0U);
  EXPECT_GT(ends(Finish::kDeadline), 0U);
}

TEST_F(DeviceRequests, GetTheirBitsOnTwoRanks) {
  const std::vector<int> gpus = gpus_of_ranks(2);
  prepare(40, engine(true, 2048, gpus));
  run(engine(true, 300, gpus));
}

// Pieces of prompts have other sizes, and so other programs read them.
TEST_F(DeviceRequests, GetItInPassesOfAnySize) {
  prepare(60, engine(true));
  for (const int batch_tokens : {40, 300}) {
    SCOPED_TRACE(batch_tokens);
    run(engine(true, batch_tokens));
  }
}

TEST_F(DeviceRequests, GetTheirBitsInSpiteOfPreemptions) {
  prepare(30, engine(true), [](Request& request) {
    make_answers_long(request);
    request.max_tokens = 1'000;
  });
  run(engine(true));
  EXPECT_GT(stats().preemptions, 0U) << "each grows to 16 blocks, and there are " << stats().kv_blocks;
}

TEST_F(DeviceRequests, DependOnTheBatchOtherwise) {
  prepare(30, engine(false));
  EXPECT_NE(first_difference(engine(false)), "");
}

}  // namespace
}  // namespace serval::testing
