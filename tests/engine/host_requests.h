// Random requests to the bundled model on the host.
#pragma once

#include "tests/engine/random_requests.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {

class HostRequests : public RandomRequests {
 protected:
  static constexpr int kContext = 832;
  static constexpr int kLongestPrompt = 600;

  HostRequests() : RandomRequests(kContext, kLongestPrompt) {}

  static EngineOptions options_of(int threads, int sms, int batch_tokens) {
    EngineOptions options;
    options.backend = "host";
    options.context = kContext;
    options.threads = threads;
    options.sms = sms;
    options.max_batch_tokens = batch_tokens;
    return options;
  }
  static constexpr uint64_t kKvBytesPerToken = 3584;
  // `kv_of_draft_model`: bytes for each token, if the options have one.
  static LoadEngine engine(EngineOptions options, uint64_t kv_of_draft_model = 0) {
    return [=](const Size& size) mutable {
      options.kv_cache_memory = size.kv_blocks * kKvBlockTokens * (kKvBytesPerToken + kv_of_draft_model);
      options.max_sequences = size.sequences;
      Engine engine = Engine::load(options);
      EXPECT_EQ(engine.info().kv_bytes_per_token, kKvBytesPerToken);
      return engine;
    };
  }
  static LoadEngine engine(int threads, int sms, int batch_tokens = 64) {
    return engine(options_of(threads, sms, batch_tokens));
  }
};

}  // namespace serval::testing
