// Many requests of all kinds at once, under a KV cache that holds a tenth of them: each gets, to the bit,
// what it gets alone.
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "engine/runtime/answers.h"
#include "engine/runtime/engine_impl.h"
#include "serval/engine.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

constexpr int kContext = 832;
constexpr int kMaxPrompt = 600;

EngineOptions options_of(int threads, int sms) {
  EngineOptions options;
  options.backend = "host";
  options.context = kContext;
  options.threads = threads;
  options.sms = sms;
  return options;
}

std::vector<Request> random_requests(size_t count, uint32_t seed, int vocabulary) {
  std::mt19937 random(seed);
  const auto real = [&] { return static_cast<float>(random() % 1000) / 1000; };
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Request> requests;
  while (requests.size() < count) {
    // Few are long.
    const auto length = static_cast<size_t>(1 + (kMaxPrompt - 1) * std::pow(real(), 6));
    Request request;
    if (!prompts.empty() && random() % 3 == 0) request.prompt_ids = prompts[random() % prompts.size()];
    request.prompt_ids.resize(std::min(request.prompt_ids.size(), size_t{random() % 500}));
    while (request.prompt_ids.size() < length)
      request.prompt_ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary)));
    prompts.push_back(request.prompt_ids);
    request.max_tokens = random() % 16 == 0 ? 0 : static_cast<int>(1 + random() % 16);
    request.ignore_eos = random() % 2 == 0;
    request.sampling.temperature = random() % 4 == 0 ? 0 : 2 * real();
    request.sampling.top_k = random() % 3 == 0 ? 0 : static_cast<int>(random() % 100);
    request.sampling.top_p = random() % 2 == 0 ? 1 : 0.5f + real() / 2;
    request.sampling.min_p = random() % 2 == 0 ? 0 : real() / 10;
    request.sampling.repetition_penalty = random() % 3 == 0 ? 1 : 1 + real();
    if (random() % 3 == 0) request.sampling.repeat_last_n = static_cast<int>(random() % 200) - 1;
    if (random() % 3 == 0) request.sampling.presence_penalty = 4 * real() - 2;
    if (random() % 3 == 0) request.sampling.frequency_penalty = 4 * real() - 2;
    if (random() % 4 == 0) request.top_logprobs = 1 + random() % 20;
    if (random() % 4 == 0) request.min_tokens = static_cast<int>(random() % 8);
    request.min_tokens = std::min(request.min_tokens, request.max_tokens);
    for (size_t i = random() % 4 == 0 ? 1 + random() % 29 : 0; i > 0; --i)
      request.logit_bias.push_back({static_cast<int32_t>(100 * i + random() % 100), 20 * real() - 10});
    request.sampling.seed = random() % 5;
    request.sampling.stream = static_cast<uint32_t>(random() % 4);
    if (random() % 3 == 0) request.stop = {"the", " a", "\n"};
    if (random() % 3 == 0) request.stop_token_ids = {static_cast<int32_t>(random() % 100), 5};
    request.priority = static_cast<int>(random() % 3);
    request.n = random() % 15 == 0 ? 3 : 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

// A request as several of one answer each.
std::vector<Request> single(Request request) {
  std::vector<Request> out;
  const int answers = request.n;
  request.n = 1;
  request.reuse_prefix = false;
  for (int answer = 0; answer < answers; ++answer) {
    out.push_back(request);
    ++request.sampling.stream;
  }
  return out;
}

class RandomRequests : public ::testing::Test {
 protected:
  // The first `count` requests, changed, and what each gets alone.
  void prepare(size_t count, const std::function<void(Request&)>& change = {}) {
    Engine alone = Engine::load(options_of(2, 2));
    requests_ = random_requests(count, 1, alone.info().vocab_size);
    for (Request& request : requests_) {
      if (change) change(request);
      std::vector<Response>& responses = expected_.emplace_back();
      for (const Request& one : single(request)) responses.push_back(alone.generate(one));
    }
  }

  // Blocks that a tenth of the requests need at their ends, and at least one context.
  uint64_t tenth_of_the_memory(int64_t bytes_per_token) const {
    uint64_t blocks = 0;
    for (const std::vector<Response>& responses : expected_) {
      for (const Response& response : responses)
        blocks += blocks_for_tokens(static_cast<uint32_t>(response.prompt_tokens) +
                                    static_cast<uint32_t>(response.tokens.size()));
    }
    const uint64_t wanted = std::max<uint64_t>(blocks / 10, blocks_for_tokens(kContext));
    return wanted * kKvBlockTokens * static_cast<uint64_t>(bytes_per_token);
  }

  // All requests together.
  EngineStats run(EngineOptions options) {
    constexpr int64_t kKvBytesPerToken = 3584;
    const size_t count = requests_.size();
    options.kv_cache_memory = tenth_of_the_memory(kKvBytesPerToken);
    options.max_sequences = 40;
    Engine engine = Engine::load(options);
    EXPECT_EQ(engine.info().kv_bytes_per_token, kKvBytesPerToken);
    std::vector<RequestHandle> handles = engine.submit(requests_);
    std::atomic<bool> done = false;
    std::vector<std::atomic<bool>> cancelled(count);
    std::thread canceller([&] {
      std::mt19937 random(7);
      for (size_t i = 0; i < count / 10 && !done; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
        const size_t victim = random() % count;
        cancelled[victim] = true;
        handles[victim].cancel();
      }
    });
    for (size_t i = 0; i < count; ++i) check(handles[i].wait(), expected_[i], cancelled[i]);
    done = true;
    canceller.join();
    Engine::Impl::of(engine).core.wait_until_idle();
    EXPECT_EQ(engine.stats().kv_blocks_held, 0u);
    EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0u);
    return engine.stats();
  }

  static void check(const std::vector<Response>& found, const std::vector<Response>& expected,
                    bool cancelled) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t answer = 0; answer < found.size(); ++answer) {
      const Response& one = found[answer];
      Response alone = expected[answer];
      if (one.finish == Finish::kCancelled) {
        EXPECT_TRUE(cancelled);
        ASSERT_LE(one.tokens.size(), alone.tokens.size());
        alone.tokens.resize(one.tokens.size());
        alone.log_probabilities.resize(one.tokens.size());
        alone.top_logprobs.resize(std::min(alone.top_logprobs.size(), one.tokens.size()));
      } else {
        EXPECT_EQ(one.finish, alone.finish);
        EXPECT_EQ(one.text, alone.text);
      }
      EXPECT_EQ(one.tokens, alone.tokens);
      EXPECT_EQ(one.log_probabilities, alone.log_probabilities);  // float ==: bit for bit
      EXPECT_EQ(one.top_logprobs, alone.top_logprobs);
    }
  }

  std::vector<Request> requests_;
  std::vector<std::vector<Response>> expected_;
};

TEST_F(RandomRequests, GetWhatTheyGetAlone) {
  prepare(300);
  EngineOptions options = options_of(2, 7);
  options.max_batch_tokens = 64;
  const EngineStats stats = run(options);
  EXPECT_GT(stats.cached_tokens, 0u);
}

TEST_F(RandomRequests, GetItAlthoughTheyGiveTheirBlocksBackOnTheWay) {
  prepare(8, [](Request& request) {
    request.prompt_ids.resize(std::min(request.prompt_ids.size(), size_t{60}));
    request.max_tokens = 150;
    request.ignore_eos = true;
    request.stop.clear();
    request.stop_token_ids.clear();
    request.min_tokens = 0;
    request.n = 1;
  });
  const EngineStats stats = run(options_of(2, 2));
  EXPECT_GT(stats.preemptions, 0u) << "each grows to four blocks, and there are " << stats.kv_blocks;
}

TEST_F(RandomRequests, GetItWithAnyNumberOfThreadsAndSms) {
  prepare(30);
  for (const auto& [threads, sms] : {std::pair{1, 1}, {1, 7}, {2, 1}}) {
    SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(sms) + " SMs");
    EngineOptions options = options_of(threads, sms);
    options.max_batch_tokens = 48;
    run(options);
  }
}

TEST_F(RandomRequests, GetItInAnyInterleavingOfInstructions) {
  prepare(12);
  EngineOptions options = options_of(1, 7);
  options.interleaving = 3;
  options.max_batch_tokens = 48;
  run(options);
}

}  // namespace
}  // namespace serval
