#include "tests/engine/random_requests.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include "fmt/format.h"

#include "engine/runtime/answers.h"
#include "engine/runtime/engine_impl.h"
#include "vm/layout/kv_cache.h"

namespace serval::testing {
namespace {

// Deadlines, in milliseconds.
constexpr double kFarAway = 86'400'000, kOver = 1e-6;

bool is_late(const Request& request) {
  return request.deadline_ms && *request.deadline_ms == kOver;
}

void constrain(Request& request, uint32_t kind) {
  request.min_tokens = 0;
  request.ignore_eos = false;
  if (kind % 4 == 0) request.json_object = true;
  if (kind % 4 == 1) request.json_schema = R"({"type":"string"})";
  if (kind % 4 == 2) request.json_schema = R"({"type":"array","items":{"type":"integer"}})";
  if (kind % 4 == 3) request.grammar = R"g(root ::= "(" (root | [^()]+)* ")")g";
}

// Such requests run before all others, and join at the same time with one block each. There is room for a
// second block each; when all need a third, the pool runs out.
void grow_with_others(Request& request) {
  make_answers_long(request);
  request.prompt_ids.resize(1);
  request.max_tokens = 2 * kKvBlockTokens + 4;
  request.priority = -1;
}

std::vector<Request> random_requests(size_t count, int longest_prompt, int vocabulary) {
  std::mt19937 random(1);
  const auto longest_prefix = static_cast<size_t>(longest_prompt) * 5 / 6;
  const auto real = [&] { return static_cast<float>(random() % 1000) / 1000; };
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Request> requests;
  while (requests.size() < count) {
    // Few are long.
    const auto length = static_cast<size_t>(1 + (longest_prompt - 1) * std::pow(real(), 6));
    Request request;
    if (!prompts.empty() && random() % 3 == 0) request.prompt_ids = prompts[random() % prompts.size()];
    request.prompt_ids.resize(std::min(request.prompt_ids.size(), size_t{random() % longest_prefix}));
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
    if (random() % 3 == 0) request.deadline_ms = kFarAway;
    if (requests.size() % 4 == 2) {
      request.prompt_logprobs = static_cast<uint32_t>(requests.size() % 21);
      request.prompt_logprobs_from = static_cast<int>(1 + requests.size() * 7 % length);
    }
    if (requests.size() % 12 == 7) constrain(request, static_cast<uint32_t>(random()));
    if (requests.size() % 10 == 5) grow_with_others(request);
    if (requests.size() % 50 == 17) request.deadline_ms = kOver;
    requests.push_back(std::move(request));
  }
  return requests;
}

// A request as several requests with one answer each.
std::vector<Request> single(Request request) {
  std::vector<Request> out;
  const int answers = request.n;
  request.n = 1;
  request.reuse_prefix = false;
  request.deadline_ms.reset();
  for (int answer = 0; answer < answers; ++answer) {
    out.push_back(request);
    request.prompt_logprobs.reset();  // only a request's first answer has them
    ++request.sampling.stream;
  }
  return out;
}

// Number of tokens before the first that differs, or whose log-probability does.
size_t tokens_alike(const Response& found, const Response& alone) {
  size_t count = 0;
  const size_t limit = std::min(found.tokens.size(), alone.tokens.size());
  while (count < limit && found.tokens[count] == alone.tokens[count] &&
         found.log_probabilities[count] == alone.log_probabilities[count])
    ++count;
  return count;
}

// The first difference between `found` and `alone`. If the request may end early with `early`, compares up to
// its end.
std::string difference(const Response& found, const Response& alone, Finish early) {
  const size_t tokens = found.tokens.size(), tops = found.top_logprobs.size();
  const auto begin_alike = [](const auto& a, const auto& b, size_t count) {
    return a.size() >= count && b.size() >= count && std::equal(a.begin(), a.begin() + count, b.begin());
  };
  if (early == Finish::kDeadline && found.finish != early) return "it is not late";
  if (early == Finish::kNone || found.finish != early) {
    if (found.finish != alone.finish) return "another end";
    if (found.text != alone.text) return "another text";
    if (found.prompt_logprobs != alone.prompt_logprobs) return "other log-probabilities of the prompt";
    if (tokens != alone.tokens.size() || tops != alone.top_logprobs.size()) return "another length";
  }
  if (!begin_alike(alone.tokens, found.tokens, tokens)) return "other tokens";
  // float ==: bit for bit
  if (!begin_alike(alone.log_probabilities, found.log_probabilities, tokens))
    return "other log-probabilities";
  if (!begin_alike(alone.top_logprobs, found.top_logprobs, tops)) return "other likeliest tokens";
  return "";
}

// One request of several. A tenth are cancelled when one of their tokens comes: on the engine's own thread,
// so that the time of the cancellation does not depend on a clock.
class Submitted {
 public:
  // Call while the engine's thread is held.
  Submitted(Engine& engine, const Request& request, size_t index) : is_late_(is_late(request)) {
    if (index % 10 == 3 && request.max_tokens > 1 && !is_late_)
      tokens_left_ = 1 + static_cast<int>(index) % (request.max_tokens - 1);
    if (tokens_left_ == 0) {
      handle_ = engine.submit(request);
    } else {
      responses_.resize(static_cast<size_t>(request.n));
      handle_ = engine.submit(request, [this](const RequestEvent& event) { take(event); });
    }
  }

  // A finish that it may have instead of the one that it has alone.
  Finish early_end() const {
    if (is_late_) return Finish::kDeadline;
    return responses_.empty() ? Finish::kNone : Finish::kCancelled;
  }
  // Call once the engine is idle.
  std::vector<Response> responses() { return responses_.empty() ? handle_.wait() : responses_; }

 private:
  void take(const RequestEvent& event) {
    add_event(responses_.at(event.answer), event);
    if (event.kind == RequestEvent::Kind::kToken && --tokens_left_ == 0) handle_.cancel();
  }

  const bool is_late_;
  int tokens_left_ = 0;  // until it is cancelled, if it is
  RequestHandle handle_;
  std::vector<Response> responses_;  // of a request that is cancelled
};

// Runs `call` while the core's thread is blocked: no request that it submits joins before all are queued.
void while_held(Core& core, const std::function<void()>& call) {
  std::promise<void> held, done;
  std::thread holder([&] {
    core.on_loop([&] {
      held.set_value();
      done.get_future().wait();
    });
  });
  held.get_future().wait();
  call();
  done.set_value();
  holder.join();
}

}  // namespace

void RandomRequests::prepare(size_t count, const LoadEngine& load,
                             const std::function<void(Request&)>& change) {
  Engine alone = load({blocks_for_tokens(static_cast<uint32_t>(context_)), 1});
  requests_ = random_requests(count, longest_prompt_, alone.info().vocab_size);
  for (Request& request : requests_) {
    if (change) change(request);
    std::vector<Response>& responses = expected_.emplace_back();
    for (const Request& one : single(request)) responses.push_back(alone.generate(one));
  }
}

// Blocks that a tenth of the requests need at their ends, at least one context.
uint32_t RandomRequests::blocks_for_a_tenth() const {
  uint32_t blocks = 0;
  for (const std::vector<Response>& responses : expected_) {
    for (const Response& response : responses)
      blocks += blocks_for_tokens(static_cast<uint32_t>(response.prompt_tokens) +
                                  static_cast<uint32_t>(response.tokens.size()));
  }
  return std::max(blocks / 10, blocks_for_tokens(static_cast<uint32_t>(context_)));
}

std::string RandomRequests::first_difference(const LoadEngine& load) {
  constexpr int kSequences = 40;
  Engine engine = load({blocks_for_a_tenth(), kSequences});
  std::vector<std::unique_ptr<Submitted>> submitted;
  Core& core = Engine::Impl::of(engine).core;
  while_held(core, [&] {
    for (const Request& request : requests_)
      submitted.push_back(std::make_unique<Submitted>(engine, request, submitted.size()));
  });
  core.wait_until_idle();
  std::string first;
  ends_.clear();
  for (size_t i = 0; i < submitted.size(); ++i) {
    const std::vector<Response> found = submitted[i]->responses();
    EXPECT_EQ(found.size(), expected_[i].size());
    for (size_t answer = 0; answer < found.size(); ++answer) {
      ++ends_[found[answer].finish];
      const std::string what = difference(found[answer], expected_[i].at(answer), submitted[i]->early_end());
      if (first.empty() && !what.empty()) {
        const Response &one = found[answer], &alone = expected_[i][answer];
        first = fmt::format("request {}, answer {}: {}; {} tokens of {} (alone {}) are as they are alone", i,
                            answer, what, tokens_alike(one, alone), one.tokens.size(), alone.tokens.size());
      }
    }
  }
  stats_ = engine.stats();
  EXPECT_EQ(stats_.kv_blocks_held, 0U);
  EXPECT_EQ(stats_.running + stats_.waiting, 0U);
  return first;
}

void make_answers_long(Request& request) {
  request.prompt_ids.resize(std::min(request.prompt_ids.size(), size_t{60}));
  request.max_tokens = 150;
  request.ignore_eos = true;
  request.stop.clear();
  request.stop_token_ids.clear();
  request.min_tokens = 0;
  request.json_object = false;
  request.json_schema.clear();
  request.grammar.clear();
  request.n = 1;
}

}  // namespace serval::testing
