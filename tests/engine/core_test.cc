// Requests from many threads: their events, their ends, and which ones are refused.
#include "engine/core/core.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/toy_engine.h"

namespace serval::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = RequestEvent::Kind;

constexpr int32_t kVocabulary = 300;

ToyEngine toy_engine(const FakeBackendOptions& backend = {.context = 200, .kv_blocks = 40}) {
  return ToyEngine(hashing_model(kVocabulary), {.vocab_size = kVocabulary, .backend = backend});
}

Request request(size_t prompt, int max_tokens) {
  Request request;
  request.prompt_ids.assign(prompt, 1);
  request.max_tokens = max_tokens;
  return request;
}

void slow_down(ToyEngine& toy) {
  toy.backend->before_each_pass([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "accepted";
}

TEST(RequestHandle, ReturnsTokensAndThenTheEnd) {
  ToyEngine toy = toy_engine();
  RequestHandle handle = toy.engine.submit(request(3, 2));
  std::vector<Kind> kinds;
  std::vector<Finish> finishes;
  while (const auto event = handle.next()) {
    kinds.push_back(event->kind);
    finishes.push_back(event->kind == Kind::kToken ? event->token.finish : event->response.finish);
  }
  EXPECT_THAT(kinds, ElementsAre(Kind::kToken, Kind::kToken, Kind::kFinished));
  EXPECT_THAT(finishes, ElementsAre(Finish::kNone, Finish::kLength, Finish::kLength));
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.next(), std::nullopt);
}

TEST(RequestHandle, WaitsNoLongerThanItIsToldTo) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  RequestHandle handle = toy.engine.submit(request(3, 100));
  // Some tokens may be ready before this thread asks for them, but not all.
  bool in_vain = false;
  size_t taken = 0;
  for (; !in_vain && !handle.done(); taken += in_vain ? 0 : 1)
    in_vain = !handle.next(std::chrono::nanoseconds(1));
  EXPECT_TRUE(in_vain);
  EXPECT_EQ(taken + handle.wait().at(0).tokens.size(), 100u);
}

TEST(RequestHandle, GivesNoTokenAfterItIsCancelled) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  RequestHandle handle = toy.engine.submit(request(3, 100));
  ASSERT_TRUE(handle.next());
  handle.cancel();
  const auto last = handle.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, Kind::kFinished);
  EXPECT_EQ(last->response.finish, Finish::kCancelled);
  EXPECT_TRUE(handle.done());
}

TEST(RequestHandle, CancelsItsRequestWhenItIsDestroyed) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  { const RequestHandle handle = toy.engine.submit(request(3, -1)); }
  EXPECT_TRUE(toy.releases_all_blocks());
  EXPECT_LT(toy.engine.stats().generated_tokens, 100u);
}

TEST(RequestHandle, WithoutARequestReturnsNothing) {
  RequestHandle handle;
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.next(), std::nullopt);
  EXPECT_TRUE(handle.wait().empty());
  handle.cancel();
}

TEST(RequestHandle, HasADefiniteEndWhenTheEngineIsDestroyed) {
  std::vector<RequestHandle> handles;
  {
    ToyEngine toy = toy_engine();
    slow_down(toy);
    for (int i = 0; i < 40; ++i) handles.push_back(toy.engine.submit(request(3, -1)));
  }
  for (RequestHandle& handle : handles) {
    const std::vector<Response> responses = handle.wait();
    ASSERT_EQ(responses.size(), 1u);
    EXPECT_EQ(responses[0].finish, Finish::kCancelled);
    handle.cancel();
  }
}

TEST(EventSink, GetsTheEventsOnTheEnginesThread) {
  ToyEngine toy = toy_engine();
  std::vector<int32_t> tokens;
  std::thread::id thread;
  std::promise<Finish> finish;
  const RequestHandle handle = toy.engine.submit(request(3, 5), [&](const RequestEvent& event) {
    thread = std::this_thread::get_id();
    if (event.kind == Kind::kToken) {
      tokens.push_back(event.token.token);
    } else {
      finish.set_value(event.response.finish);
    }
  });
  EXPECT_EQ(finish.get_future().get(), Finish::kLength);
  EXPECT_EQ(tokens, toy.engine.generate(request(3, 5)).tokens);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(EventSink, MaySubmitButNotWait) {
  ToyEngine toy = toy_engine();
  std::promise<std::string> refused;
  std::vector<RequestHandle> inner;
  std::promise<void> submitted;
  const RequestHandle outer = toy.engine.submit(request(3, 1), [&](const RequestEvent& event) {
    if (event.kind != Kind::kToken) return;
    inner.push_back(toy.engine.submit(request(4, 7)));
    refused.set_value(refusal([&] { toy.engine.generate(request(3, 1)); }));
    submitted.set_value();
  });
  EXPECT_THAT(refused.get_future().get(), HasSubstr("called on the engine's own thread"));
  submitted.get_future().get();
  EXPECT_EQ(inner.at(0).wait().at(0).tokens.size(), 7u);
}

TEST(EventSink, EndsOnlyItsOwnRequestIfItThrows) {
  ToyEngine toy = toy_engine();
  std::atomic<int> calls = 0;
  const RequestHandle bad = toy.engine.submit(request(3, -1), [&](const RequestEvent&) {
    ++calls;
    throw 42;
  });
  EXPECT_EQ(toy.engine.generate(request(4, 50)).tokens.size(), 50u);
  EXPECT_TRUE(toy.releases_all_blocks());
  EXPECT_EQ(calls, 2) << "a token and the end";
}

TEST(Core, LetsARequestJoinALongLaunch) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  RequestHandle first = toy.engine.submit(request(1, 150));
  ASSERT_TRUE(first.next());
  EXPECT_EQ(toy.engine.generate(request(2, 3)).tokens.size(), 3u);
  EXPECT_FALSE(first.done());
  EXPECT_EQ(first.wait().at(0).tokens.size(), 149u);
}

TEST(Core, GivesSeveralAnswersAsRequestsOfTheirOwnStreams) {
  ToyEngine toy = toy_engine();
  Request several = request(100, 20);
  several.sampling.stream = 5;
  several.n = 3;
  const std::vector<Response> together = toy.engine.submit(several).wait();
  ASSERT_EQ(together.size(), 3u);
  several.n = 1;
  for (const Response& response : together) {
    EXPECT_EQ(response.tokens, toy.engine.generate(several).tokens);
    ++several.sampling.stream;
  }
  several.n = 2;
  EXPECT_EQ(toy.engine.decode_batch(std::vector{several, several}).size(), 4u);
  EXPECT_THAT(refusal([&] { toy.engine.generate(several); }), HasSubstr("n: 2; limit: 1"));
  Batch batch(toy.engine);
  EXPECT_THAT(refusal([&] { batch.add(several); }), HasSubstr("n: 2"));
}

TEST(Core, EndsAnAnswerAtAStopTokenOfTheRequest) {
  ToyEngine toy(scripted_model(3, {10, 11, 12}), {.stop_tokens = {12}, .text = nullptr});
  Request r = request(3, 20);
  r.stop_token_ids = {11};
  const Response own = toy.engine.generate(r);
  EXPECT_EQ(own.finish, Finish::kStop);
  EXPECT_THAT(own.tokens, ElementsAre(10, 11));
  EXPECT_EQ(own.text, "\n") << "without the stop token's";
  r.stop_token_ids = {12};
  EXPECT_EQ(toy.engine.generate(r).finish, Finish::kEos);
  r.ignore_eos = true;
  EXPECT_EQ(toy.engine.generate(r).finish, Finish::kStop);
}

TEST(Core, ListsTheLikeliestTokensOfEachTokenOfThoseThatAskForIt) {
  ToyEngine toy = toy_engine();
  std::vector<Request> requests(3, request(3, 12));
  requests[0].top_logprobs = 3;
  requests[2].top_logprobs = 20;
  requests[2].max_tokens = 4;
  const std::vector<Response> responses = toy.engine.decode_batch(requests);
  EXPECT_TRUE(responses[1].top_logprobs.empty());
  for (const size_t i : {0u, 2u}) {
    const Response& response = responses[i];
    ASSERT_EQ(response.top_logprobs.size(), response.tokens.size());
    for (size_t t = 0; t < response.tokens.size(); ++t) {
      ASSERT_EQ(response.top_logprobs[t].size(), requests[i].top_logprobs);
      EXPECT_EQ(response.top_logprobs[t][0], (TopLogprob{response.tokens[t], response.log_probabilities[t]}));
      EXPECT_EQ(response.top_logprobs[t].back().token,
                response.tokens[t] + static_cast<int32_t>(requests[i].top_logprobs) - 1);
    }
  }
}

// The backend checks the histories that it reads. The sequences are preempted on the way.
TEST(Core, KeepsTheHistoriesOfSequencesThatArePenalised) {
  ToyEngine toy = toy_engine({.context = 200, .kv_blocks = 8});
  std::vector<Request> requests(6, request(50, 140));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.stream = static_cast<uint32_t>(i);
    requests[i].sampling.presence_penalty = i % 3 == 0 ? 1.0f : 0.0f;
    requests[i].sampling.repetition_penalty = i % 3 == 1 ? 1.5f : 1.0f;
  }
  for (const Response& response : toy.engine.decode_batch(requests)) EXPECT_EQ(response.tokens.size(), 140u);
  EXPECT_GT(toy.engine.stats().preemptions, 0u);
}

// The content of a slot of the state block, as a model sees it.
TEST(Core, TellsTheProgramWhatARequestAsksFor) {
  SequenceSlot seen;
  ToyEngine toy(
      [&](const SequenceSlot& slot, std::span<const int32_t>) -> SampledToken {
        seen = slot;
        return {7, -1};
      },
      {.vocab_size = kVocabulary, .stop_tokens = {12}});
  Request r = request(3, 20);
  toy.engine.generate(r);
  EXPECT_EQ(seen.extras, 0u);
  r.sampling.repetition_penalty = 1.5f;
  r.sampling.repeat_last_n = -1;
  r.sampling.presence_penalty = 0.5f;
  r.sampling.frequency_penalty = -0.5f;
  r.logit_bias = {{4, 1}, {5, -1}};
  r.min_tokens = 6;
  r.top_logprobs = 2;
  toy.engine.generate(r);
  EXPECT_EQ(seen.extras, kAdjustsLogits | kKeepsHistory | kListsTop);
  EXPECT_EQ(seen.repetition_penalty, 1.5f);
  EXPECT_EQ(seen.repeat_last_n, -1);
  EXPECT_EQ(seen.presence_penalty, 0.5f);
  EXPECT_EQ(seen.frequency_penalty, -0.5f);
  EXPECT_EQ(seen.prompt_length, 3u);
  EXPECT_EQ(seen.first_stop, 9u);
  EXPECT_EQ(seen.num_biases, 2u);
  EXPECT_EQ(seen.num_top, 2u);
}

TEST(Core, EndsARequestAtItsDeadline) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  Request late = request(3, -1);
  late.deadline_ms = 10;
  const Response response = toy.engine.generate(late);
  EXPECT_EQ(response.finish, Finish::kDeadline);
  EXPECT_LT(response.tokens.size(), 150u);
}

TEST(Core, RefusesEachBadRequestWithOneClearErrorAndLeavesTheOthers) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  RequestHandle other = toy.engine.submit(request(3, 150));
  const auto refused = [&](const std::function<void(Request&)>& change) {
    Request r = request(3, 5);
    change(r);
    return refusal([&] { toy.engine.submit(r); });
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refused([](Request& r) { r.sampling.temperature = kNan; }), HasSubstr("temperature: nan"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.top_p = 2; }), HasSubstr("top_p: 2"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.top_k = -1; }), HasSubstr("top_k: -1"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.min_p = -1; }), HasSubstr("min_p: -1"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.repetition_penalty = 0; }), HasSubstr("penalty: 0"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.presence_penalty = 3; }), HasSubstr("presence_penalty: 3"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.frequency_penalty = kNan; }), HasSubstr("penalty: nan"));
  EXPECT_THAT(refused([](Request& r) { r.sampling.repeat_last_n = -2; }), HasSubstr("repeat_last_n: -2"));
  EXPECT_THAT(refused([](Request& r) { r.logit_bias = {{kVocabulary, 1}}; }), HasSubstr("token 300; limit"));
  EXPECT_THAT(refused([](Request& r) { r.logit_bias = {{1, kNan}}; }), HasSubstr("logit_bias[0]: nan"));
  EXPECT_THAT(refused([](Request& r) { r.min_tokens = 6; }), HasSubstr("min_tokens: 6; limit: max_tokens"));
  EXPECT_THAT(refused([](Request& r) { r.top_logprobs = 21; }), HasSubstr("top_logprobs: 21"));
  EXPECT_THAT(refused([](Request& r) { r.max_tokens = -3; }), HasSubstr("max_tokens: -3"));
  EXPECT_EQ(refused([](Request& r) { r.n = 0; }), "n: 0; limit: 1 to 128");
  EXPECT_EQ(refused([](Request& r) { r.n = 129; }), "n: 129; limit: 1 to 128");
  EXPECT_EQ(refused([](Request& r) { r.deadline_ms = -1; }),
            "deadline_ms: -1; it is in the past; limit: more than 0");
  EXPECT_THAT(refused([](Request& r) { r.deadline_ms = 0; }), HasSubstr("deadline_ms: 0"));
  EXPECT_THAT(refused([](Request& r) { r.deadline_ms = std::nan(""); }), HasSubstr("deadline_ms: nan"));
  EXPECT_THAT(refused([](Request& r) { r.stop.assign(65, "x"); }), HasSubstr("stop: 65 strings"));
  EXPECT_THAT(refused([](Request& r) { r.bad_words.assign(129, "x"); }), HasSubstr("bad_words: 129 strings"));
  EXPECT_EQ(refused([](Request& r) {
              r.bad_words = {"x", ""};
            }),
            "bad_words[1]: empty; expected at least 1 byte");
  EXPECT_THAT(refused([](Request& r) { r.bad_words = {std::string(257, 'x')}; }), HasSubstr("limit: 256"));
  EXPECT_EQ(refused([](Request& r) { r.cache_salt.assign(257, 'x'); }), "cache_salt bytes: 257; limit: 256");
  EXPECT_EQ(refused([](Request& r) {
              r.stop_token_ids = {5, 300};
            }),
            "stop_token_ids[1]: token 300; limit: 0 to 299 (the vocabulary)");
  EXPECT_EQ(refused([](Request& r) {
              for (int32_t id = 0; id < 17; ++id) r.stop_token_ids.push_back(id);
            }),
            "stop_token_ids: 17 tokens, 0 of them the model's own; limit: 16");
  EXPECT_THAT(refused([](Request& r) { r.prompt_ids = {1, -1}; }), HasSubstr("prompt_ids[1]: token -1"));
  EXPECT_THAT(refused([](Request& r) { r.prompt_ids.clear(); }), HasSubstr("prompt: empty"));
  EXPECT_THAT(refused([](Request& r) { r.prompt_ids.assign(200, 1); }), HasSubstr("prompt: 200 tokens"));
  EXPECT_EQ(other.wait().at(0).tokens.size(), 150u);
}

TEST(Core, TakesNoRequestAfterItsShutdown) {
  ToyEngine toy = toy_engine();
  slow_down(toy);
  RequestHandle running = toy.engine.submit(request(3, -1));
  toy.engine.shutdown();
  EXPECT_EQ(running.wait().at(0).finish, Finish::kCancelled);
  EXPECT_EQ(refusal([&] { toy.engine.submit(request(3, 1)); }),
            "engine: it has been shut down and takes no requests");
  EXPECT_EQ(refusal([&] { toy.engine.generate(request(3, 1)); }),
            "engine: it has been shut down and takes no requests");
  toy.engine.shutdown();
}

TEST(Core, CountsWhatItDoes) {
  ToyEngine toy = toy_engine();
  toy.engine.decode_batch(std::vector(3, request(100, 10)));
  EXPECT_TRUE(toy.releases_all_blocks());
  const EngineStats stats = toy.engine.stats();
  EXPECT_EQ(stats.finished, 3u);
  EXPECT_EQ(stats.prompt_tokens, 300u);
  EXPECT_EQ(stats.generated_tokens, 30u);
  EXPECT_EQ(stats.kv_blocks, 40u);
  EXPECT_EQ(stats.kv_blocks_kept, 4u) << "a full one and three tails";
  EXPECT_EQ(stats.passes, toy.backend->passes_run());
  EXPECT_EQ(stats.launches, toy.backend->launches());
}

// Clients on several threads, with cancellations, deadlines and prompts that begin alike.
TEST(Core, ServesManyThreads) {
  for (const uint32_t stop_latency : {0U, 2U}) {
    ToyEngine toy = toy_engine(
        {.context = 200, .kv_blocks = 14, .rows = 24, .sequences = 12, .stop_latency = stop_latency});
    std::vector<std::thread> clients;
    for (uint32_t client = 0; client < 6; ++client) {
      clients.emplace_back([&, client] {
        std::mt19937 random(client);
        for (int round = 0; round < 60; ++round) {
          Request r = request(1 + random() % 140, 1 + static_cast<int>(random() % 50));
          r.sampling.seed = random() % 4;
          r.n = random() % 6 == 0 ? 3 : 1;
          RequestHandle handle = toy.engine.submit(r);
          const uint32_t kind = random() % 5;
          if (kind == 0) continue;  // dropped
          for (uint32_t tokens = random() % 5; kind == 1 && tokens > 0; --tokens) handle.next();
          if (kind == 1) handle.cancel();
          const std::vector<Response> found = handle.wait();
          if (kind == 1) continue;
          for (const Response& response : found) {
            EXPECT_EQ(response.tokens,
                      answer_alone(hashing_model(kVocabulary), toy.impl().prepare(r)).tokens);
            ++r.sampling.stream;
          }
        }
      });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_TRUE(toy.releases_all_blocks());
    EXPECT_GT(toy.engine.stats().cached_tokens, 0u);
  }
}

}  // namespace
}  // namespace serval::testing
