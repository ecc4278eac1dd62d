// Random requests on a GPU with drafts: they get the bits that they get without.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "serval/engine.h"
#include "tests/device/gpus_of_ranks.h"
#include "tests/engine/random_requests.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {
namespace {

constexpr int kContext = 832;
constexpr int kLongestPrompt = 200;

// Passes of up to 16 tokens: all of one arithmetic class.
class DeviceDrafts : public RandomRequests {
 protected:
  DeviceDrafts() : RandomRequests(kContext, kLongestPrompt) {}

  static LoadEngine engine(int drafts, const std::vector<int>& gpus = {}) {
    return [=](const Size& size) {
      constexpr uint64_t kKvBytesPerToken = 3584;
      EngineOptions options;
      options.backend = "device";
      options.context = kContext;
      options.max_sequences = std::min(size.sequences, 16);
      options.max_batch_tokens = 16;
      options.kv_cache_memory = size.kv_blocks * kKvBlockTokens * kKvBytesPerToken;
      options.gpus = gpus;
      if (drafts > 0)
        options.speculation = {.method = Speculation::Method::kNgram, .draft_max = drafts, .ngram_min = 1};
      return Engine::load(options);
    };
  }
  // Most requests may have drafts, and their prompts repeat themselves.
  static void allow_drafts(Request& request) {
    if (request.prompt_ids.size() % 5 == 0) return;
    request.sampling.repetition_penalty = 1;
    request.sampling.presence_penalty = request.sampling.frequency_penalty = 0;
    request.sampling.temperature /= 4;
    request.top_logprobs = 0;
    request.prompt_logprobs.reset();
    request.max_tokens = std::max(request.max_tokens, 60);
    const std::vector<int32_t> once = request.prompt_ids;
    request.prompt_ids.insert(request.prompt_ids.end(), once.begin(), once.end());
  }
};

TEST_F(DeviceDrafts, DoNotShow) {
  prepare(300, engine(0), allow_drafts);
  ASSERT_EQ(first_difference(engine(0)), "") << "without drafts";
  for (const int drafts : {7, 3, 15}) {
    SCOPED_TRACE(drafts);
    run(engine(drafts));
    EXPECT_GT(stats().drafts.accepted, 0U);
    EXPECT_LT(stats().drafts.accepted, stats().drafts.drafted);
  }
  EXPECT_GT(ends(Finish::kCancelled), 0U);
}

TEST_F(DeviceDrafts, DoNotShowOnTwoRanks) {
  const std::vector<int> gpus = gpus_of_ranks(2);
  prepare(40, engine(0, gpus), allow_drafts);
  ASSERT_EQ(first_difference(engine(0, gpus)), "") << "without drafts";
  run(engine(7, gpus));
  EXPECT_GT(stats().drafts.accepted, 0U);
}

}  // namespace
}  // namespace serval::testing
