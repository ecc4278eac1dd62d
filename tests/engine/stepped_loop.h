// Runs the pass loop one step at a time and without threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "engine/core/pass_loop.h"
#include "tests/engine/toy_engine.h"

namespace serval::testing {

inline TimePoint simulated_now;

// A loop with the fake backend, on this thread, in simulated time: each pass takes a millisecond.
class SteppedLoop {
 public:
  static constexpr int32_t kVocabulary = 300;

  explicit SteppedLoop(const FakeBackendOptions& options = {}, uint32_t max_sequences = 0,
                       ToyModel model = hashing_model(kVocabulary))
      : model_(std::move(model)),
        backend(model_, options),
        context_(options.context),
        loop(backend, signals, {.max_sequences = max_sequences, .now = [] { return simulated_now; }}) {
    backend.before_each_pass([] { simulated_now += std::chrono::milliseconds(1); });
  }

  // Adds the request to the loop and collects its events.
  size_t add(const Request& request) {
    const size_t index = answers.size();
    PreparedRequest prepared = prepare_request(
        request, request.prompt_ids, {kVocabulary, context_, {}, pooling, backend.limits().pooled_cols});
    answers.emplace_back();
    const auto channel = std::make_shared<Channel>(signals, [this, index](const RequestEvent& event) {
      if (on_event) on_event(event);
      if (!event.response.prompt_logprobs.empty())
        answers[index].prompt_logprobs = event.response.prompt_logprobs;
      if (event.kind == RequestEvent::Kind::kToken) {
        answers[index].tokens.push_back(event.token.token);
      } else {
        Response ended_answer = event.response;
        ended_answer.tokens = std::move(answers[index].tokens);
        ended_answer.prompt_logprobs = std::move(answers[index].prompt_logprobs);
        answers[index] = std::move(ended_answer);
        ended.push_back(index);
      }
    });
    channels.push_back(channel);
    auto leader = sequence_of(prepared, 0, channel);
    for (int answer = 1; answer < request.n; ++answer)
      leader->followers.push_back(sequence_of(prepared, static_cast<uint32_t>(answer), channel));
    loop.add(std::move(leader));
    return index;
  }

  // Forgets requests that have ended.
  void forget() {
    answers = {};
    channels = {};
    ended = {};
  }

  void run_to_end() {
    while (loop.step()) {
    }
    EXPECT_TRUE(loop.idle());
    EXPECT_EQ(loop.stats().kv_blocks_held, 0u);
  }

  std::vector<int32_t> tokens_alone(const Request& request) {
    return answer_alone(model_, prepare_request(request, request.prompt_ids, {kVocabulary, context_, {}}))
        .tokens;
  }

 private:
  ToyModel model_;

 public:
  std::shared_ptr<CoreSignals> signals = std::make_shared<CoreSignals>();
  FakeBackend backend;

 private:
  uint32_t context_;
  std::unique_ptr<TextCodec> text_ = make_byte_codec(kVocabulary);

  std::unique_ptr<Sequence> sequence_of(const PreparedRequest& request, uint32_t answer,
                                        const std::shared_ptr<Channel>& channel) {
    return std::make_unique<Sequence>(request, answer, channel, text_->stream(SpecialTokens::kNot), 0,
                                      simulated_now);
  }

 public:
  PassLoop loop;
  std::vector<Response> answers;
  std::vector<std::shared_ptr<Channel>> channels;
  std::vector<size_t> ended;  // in order of their ends
  std::function<void(const RequestEvent&)> on_event;
  std::optional<PoolingConfig> pooling;  // requests are for embeddings
};

inline Request request(size_t prompt, int max_tokens, int32_t token = 1) {
  Request request;
  request.prompt_ids.assign(prompt, token);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

}  // namespace serval::testing
