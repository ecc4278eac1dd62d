#include "engine/server/service/service.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "models/tokenizer/utf8.h"
#include "tests/engine/toy_engine.h"

namespace serval::server {
namespace {

using nlohmann::json;
using serval::testing::hashing_model;
using serval::testing::ToyEngine;
using ::testing::HasSubstr;

constexpr int32_t kVocabulary = 300;

// An exchange without sockets that records the answer.
class Client final : public Exchange {
 public:
  explicit Client(HttpRequest request) : request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void respond(const HttpResponse& response) override {
    set([&] { answer_ = response; }, true);
  }
  void begin_stream(const HttpResponse& head) override {
    set([&] { answer_ = head; }, false);
  }
  void write(std::string_view bytes) override {
    set([&] { answer_.body += bytes; }, false);
  }
  void end_stream() override {
    set([] {}, true);
  }
  void on_disconnect(std::function<void()> call) override {
    if (disconnected_) return call();
    on_disconnect_ = std::move(call);
  }
  void disconnect() {
    disconnected_ = true;
    if (on_disconnect_) on_disconnect_();
  }

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return complete_; });
    return answer_;
  }
  void wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.body.find(text) != std::string::npos; });
  }
  bool complete() {
    const std::lock_guard lock(mutex_);
    return complete_;
  }

 private:
  template <typename Change>
  void set(Change change, bool complete) {
    {
      const std::lock_guard lock(mutex_);
      change();
      complete_ = complete;
    }
    changed_.notify_all();
  }

  const HttpRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  HttpResponse answer_;
  bool complete_ = false;
  bool disconnected_ = false;
  std::function<void()> on_disconnect_;
};

// Blocks the engine before a pass.
class Gate {
 public:
  void stop_at(int pass) { closed_from_ = pass; }
  void pass() {
    std::unique_lock lock(mutex_);
    if (++passes_ < closed_from_) return;
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int passes_ = 0, closed_from_ = 0, arrived_ = 0;
  bool open_ = false;
};

class ServiceTest : public ::testing::Test {
 protected:
  // Starts the service without attaching the engine.
  void start(ServiceOptions options = {}, uint32_t sequences = 4) {
    toy_.emplace(hashing_model(kVocabulary),
                 serval::testing::ToyOptions{.vocab_size = kVocabulary, .backend = {.sequences = sequences}});
    options.on_record = [this](const RequestRecord& record) { records_.push_back(record); };
    service_.emplace(loop_, std::move(options));
    loop_.start();
  }
  void serve(ServiceOptions options = {}, uint32_t sequences = 4) {
    start(std::move(options), sequences);
    service_->attach(toy_->engine);
  }
  void TearDown() override {
    gate_.open();
    service_->detach();
    toy_.reset();
    loop_.stop();
  }
  void stop_engine(int at_pass = 1) {
    gate_.stop_at(at_pass);
    toy_->backend->before_each_pass([this] { gate_.pass(); });
  }

  std::shared_ptr<Client> ask(const std::string& path, const json& body = nullptr,
                              const std::string& key = "") {
    return ask(HttpRequest{.method = body.is_null() ? "GET" : "POST",
                           .target = path,
                           .authorization = key.empty() ? "" : "Bearer " + key,
                           .body = body.is_null() ? "" : body.dump()});
  }
  std::shared_ptr<Client> ask(HttpRequest request) {
    const auto client = std::make_shared<Client>(std::move(request));
    loop_.post([this, client] { service_->handler()(client); });
    return client;
  }
  std::shared_ptr<Client> complete(int max_tokens, json more = json::object()) {
    more.update(json{{"prompt", "Hi"}, {"max_tokens", max_tokens}, {"temperature", 0}});
    return ask("/v1/completions", more);
  }
  void disconnect(const std::shared_ptr<Client>& client) {
    loop_.post([client] { client->disconnect(); });
    ask("/health")->wait();
  }
  // With one worker: returns when all earlier requests are queued.
  void wait_for_worker() { ask("/tokenize", {{"prompt", "Hi"}})->wait(); }
  Response alone(int max_tokens) {
    Request request{.prompt = "Hi", .max_tokens = max_tokens};
    request.sampling.temperature = 0;
    return toy_->engine.generate(request);
  }

  Loop loop_;
  Gate gate_;
  std::optional<ToyEngine> toy_;
  std::optional<Service> service_;
  std::vector<RequestRecord> records_;  // used on the loop's thread only
};

TEST_F(ServiceTest, AnswersWithTheEnginesText) {
  serve();
  const HttpResponse answer = complete(10)->wait();
  EXPECT_EQ(answer.status, 200);
  const json body = json::parse(answer.body);
  EXPECT_EQ(body.at("choices").at(0).at("text"), alone(10).text);
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 10);
  EXPECT_EQ(body.at("model"), "toy");
}

TEST_F(ServiceTest, TheAliasIsTheModelsName) {
  serve({.alias = "other"});
  EXPECT_EQ(json::parse(ask("/v1/models")->wait().body).at("data").at(0).at("id"), "other");
  EXPECT_EQ(ask("/v1/models/other")->wait().status, 200);
  EXPECT_EQ(ask("/v1/models/toy")->wait().status, 404);
  EXPECT_EQ(complete(1, {{"model", "toy"}})->wait().status, 404);
  EXPECT_EQ(json::parse(complete(1, {{"model", "other"}})->wait().body).at("model"), "other");
}

TEST_F(ServiceTest, ReportsTheProgressOfLoading) {
  start();
  service_->loading("weights", 1, 4);
  const HttpResponse health = ask("/health")->wait();
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(json::parse(health.body),
            json({{"status", "loading"}, {"stage", "weights"}, {"progress", 0.25}}));
  EXPECT_EQ(ask("/ready")->wait().status, 503);
  EXPECT_EQ(complete(1)->wait().status, 503);
  service_->attach(toy_->engine);
  EXPECT_EQ(ask("/health")->wait().status, 200);
  EXPECT_EQ(ask("/ready")->wait().status, 200);
}

TEST_F(ServiceTest, AKeyIsNeededWhereThereIsOne) {
  ApiKeys keys;
  keys.add({"ann", "secret"});
  serve({.keys = keys});
  EXPECT_EQ(ask("/v1/models")->wait().status, 401);
  EXPECT_EQ(ask("/v1/models", nullptr, "wrong")->wait().status, 401);
  EXPECT_EQ(ask("/v1/models", nullptr, "secret")->wait().status, 200);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(ask(path, json::object())->wait().status, 401) << path;
  for (const char* path : {"/health", "/ready", "/version"}) EXPECT_EQ(ask(path)->wait().status, 200) << path;
}

TEST_F(ServiceTest, AKeyMayComeAsAnthropicsClientsSendIt) {
  ApiKeys keys;
  keys.add({"ann", "secret"});
  serve({.keys = keys});
  for (const char* path : {"/v1/models", "/v1/messages/count_tokens"}) {
    const bool is_get = path == std::string("/v1/models");
    HttpRequest request{.method = is_get ? "GET" : "POST", .target = path, .authorization = "", .body = "{}"};
    request.api_key = "wrong";
    EXPECT_EQ(ask(request)->wait().status, 401) << path;
    request.api_key = "secret";
    EXPECT_EQ(ask(request)->wait().status, is_get ? 200 : 400) << path;
  }
}

TEST_F(ServiceTest, ErrorsOfMessagesHaveAnthropicsForm) {
  ApiKeys keys;
  keys.add({"ann", "secret"});
  serve({.keys = keys});
  const auto error_of = [&](const std::string& path, const json& body, const std::string& key) {
    const HttpResponse answer = ask(path, body, key)->wait();
    const json error = json::parse(answer.body);
    EXPECT_EQ(error.at("type"), "error");
    for (const char* name : {"request-id", "X-Request-Id"}) {
      const auto header =
          std::ranges::find(answer.headers, name, &std::pair<std::string, std::string>::first);
      const std::string id = header == answer.headers.end() ? "absent" : header->second;
      EXPECT_EQ(id, error.at("request_id")) << name;
    }
    return std::pair(answer.status, error.at("error").at("type").get<std::string>());
  };
  using Error = std::pair<int, std::string>;
  const json hello = {{"max_tokens", 5}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  json other = hello;
  other["model"] = "claude";
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    EXPECT_EQ(error_of(path, hello, ""), Error(401, "authentication_error"));
    EXPECT_EQ(error_of(path, {{"n", 1}}, "secret"), Error(400, "invalid_request_error"));
    EXPECT_EQ(error_of(path, nullptr, "secret"), Error(405, "invalid_request_error"));
  }
  EXPECT_EQ(error_of("/v1/messages", other, "secret"), Error(404, "not_found_error"));
}

TEST_F(ServiceTest, AnotherVersionOfAnthropicsApiIsRefused) {
  serve();
  HttpRequest request{.method = "POST", .target = "/v1/messages", .authorization = "", .body = "{}"};
  for (const char* version : {"", "2023-06-01", "2026-10-21"}) {
    request.anthropic_version = version;
    EXPECT_THAT(ask(request)->wait().body, HasSubstr("max_tokens: required"));
  }
  request.anthropic_version = "2030-01-01";
  EXPECT_THAT(ask(request)->wait().body, HasSubstr("expected 2023-06-01"));
}

TEST_F(ServiceTest, PathsAndMethodsThatAreNotServedAreRefused) {
  serve();
  for (const char* path :
       {"/index.html", "/v1", "/v1/completions/", "/../etc/passwd", "//health", "/healthy"})
    EXPECT_EQ(ask(path)->wait().status, 404) << path;
  EXPECT_EQ(ask("/v1/completions")->wait().status, 405);
  EXPECT_EQ(ask("/health", json::object())->wait().status, 405);
}

TEST_F(ServiceTest, AFullQueueRefusesWithRetryAfter) {
  serve({.max_queue = 2}, 1);
  stop_engine();
  const auto first = complete(1);
  gate_.wait_for_arrival();
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back(complete(1));  // one waits in the engine, two in the queue, one is refused
  const HttpResponse refused = clients.back()->wait();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at(0).first, "Retry-After");
  EXPECT_GE(std::stoi(refused.headers.at(0).second), 1);
  gate_.open();
  clients.pop_back();
  for (const auto& client : clients) EXPECT_EQ(client->wait().status, 200);
  EXPECT_EQ(first->wait().status, 200);
}

TEST_F(ServiceTest, ADisconnectFreesTheRequestsBlocks) {
  serve();
  stop_engine(3);
  const auto client = complete(100, {{"stream", true}});
  client->wait_for("data: ");
  gate_.wait_for_arrival();
  disconnect(client);
  gate_.open();
  EXPECT_TRUE(toy_->releases_all_blocks());
  EXPECT_FALSE(client->complete());
}

TEST_F(ServiceTest, AWaitingRequestEndsWhenItsClientDisconnects) {
  serve({.workers = 1}, 1);
  stop_engine();
  const auto first = complete(1);
  gate_.wait_for_arrival();
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(complete(1));
  wait_for_worker();
  for (const auto& client : clients) disconnect(client);
  gate_.open();
  EXPECT_EQ(first->wait().status, 200);
  EXPECT_EQ(complete(1)->wait().status, 200);
}

TEST_F(ServiceTest, AfterAFaultEveryRequestFailsAndHealthIsRed) {
  serve();
  toy_->backend->fail_at_pass(5);
  const auto plain = complete(100);
  const auto stream = complete(100, {{"stream", true}});
  EXPECT_EQ(plain->wait().status, 500);
  EXPECT_THAT(stream->wait().body, HasSubstr("server_error"));
  const HttpResponse health = ask("/health")->wait();
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(json::parse(health.body).at("status"), "red");
  EXPECT_EQ(complete(1)->wait().status, 503);
  EXPECT_EQ(service_->wait(), Service::Outcome::kFault);
  EXPECT_NE(service_->fault(), "");
}

// CUDA reports a failed kernel as a kRuntime error of the launch.
TEST_F(ServiceTest, AnErrorOfTheDeviceDuringALaunchIsAFault) {
  serve();
  toy_->backend->fail_at_pass(5, ErrorKind::kRuntime);
  EXPECT_EQ(complete(100)->wait().status, 500);
  EXPECT_EQ(ask("/health")->wait().status, 503);
  EXPECT_EQ(service_->wait(), Service::Outcome::kFault);
}

TEST_F(ServiceTest, OutOfMemoryFailsOnlyTheRunningRequests) {
  serve();
  toy_->backend->fail_at_pass(5, ErrorKind::kOutOfMemory);
  EXPECT_EQ(complete(100)->wait().status, 500);
  EXPECT_EQ(ask("/health")->wait().status, 200);
  toy_->backend->fail_at_pass(~uint64_t{0});
  EXPECT_EQ(complete(5)->wait().status, 200);
}

TEST_F(ServiceTest, WhileDrainingOnlyRunningRequestsAreAnswered) {
  serve();
  stop_engine();
  const auto running = complete(20);
  gate_.wait_for_arrival();
  service_->drain(std::chrono::seconds(60));
  EXPECT_EQ(ask("/ready")->wait().status, 503);
  EXPECT_EQ(ask("/health")->wait().status, 200);
  EXPECT_EQ(complete(1)->wait().status, 503);
  gate_.open();
  EXPECT_EQ(running->wait().status, 200);
  EXPECT_EQ(service_->wait(), Service::Outcome::kDrained);
}

TEST_F(ServiceTest, RequestsThatOutlastTheDrainGetAnError) {
  serve();
  stop_engine();
  const auto running = complete(20);
  gate_.wait_for_arrival();
  service_->drain(std::chrono::seconds(0));
  const HttpResponse answer = running->wait();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body).at("error").at("code"), "shutting_down");
  EXPECT_EQ(service_->wait(), Service::Outcome::kDrained);
}

TEST_F(ServiceTest, ARequestThatWaitsTooLongTimesOut) {
  serve({.timeout = std::chrono::milliseconds(50)}, 1);
  stop_engine();
  std::vector<std::shared_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(complete(1));
  EXPECT_EQ(clients.back()->wait().status, 504);
  gate_.open();
  for (const auto& client : clients) client->wait();
}

TEST_F(ServiceTest, AKeyWithManyRequestsDoesNotDelayAnother) {
  ApiKeys keys;
  keys.add({"greedy", "g"});
  keys.add({"modest", "m"});
  serve({.keys = keys, .workers = 1}, 1);
  stop_engine();
  const json body = {{"prompt", "Hi"}, {"max_tokens", 1}};
  std::vector<std::shared_ptr<Client>> greedy;
  for (int i = 0; i < 20; ++i) greedy.push_back(ask("/v1/completions", body, "g"));
  gate_.wait_for_arrival();
  const auto modest = ask("/v1/completions", body, "m");
  ask("/tokenize", {{"prompt", "Hi"}}, "m")->wait();  // one worker: all requests before it are queued
  gate_.open();
  modest->wait();
  for (const auto& client : greedy) client->wait();
  std::promise<size_t> place;
  loop_.post([&] {
    for (size_t i = 0; i < records_.size(); ++i)
      if (records_[i].key == "modest") place.set_value(i);
  });
  EXPECT_LT(place.get_future().get(), 10U);
}

TEST_F(ServiceTest, MetricsCountRequestsAndTokens) {
  serve();
  complete(10)->wait();
  EXPECT_EQ(complete(-1)->wait().status, 400);
  // The engine counts a pass after it has delivered the pass's token.
  std::string text;
  do {
    text = ask("/metrics")->wait().body;
  } while (text.find("serval:passes_total{model_name=\"toy\"} 10\n") == std::string::npos ||
           text.find("serval:num_requests_running{model_name=\"toy\"} 0\n") == std::string::npos);
  for (const char* line :
       {"serval:generation_tokens_total{model_name=\"toy\"} 10\n",
        "serval:num_requests_running{model_name=\"toy\"} 0\n",
        "serval:request_success_total{model_name=\"toy\",finished_reason=\"length\"} 1\n",
        "serval:request_refused_total{model_name=\"toy\",status=\"400\"} 1\n",
        "serval:inter_token_latency_seconds_count{model_name=\"toy\"} 9\n",
        "serval:time_to_first_token_seconds_bucket{model_name=\"toy\",le=\"+Inf\"} 1\n",
        "serval:passes_total{model_name=\"toy\"} 10\n", "serval:pass_rows_total{model_name=\"toy\"} 11\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST_F(ServiceTest, MetricsDescribeTheProcessAsPrometheusClientsDo) {
  serve();
  const std::string text = ask("/metrics")->wait().body;
  for (const char* name :
       {"process_cpu_seconds_total", "process_open_fds", "process_max_fds", "process_virtual_memory_bytes",
        "process_resident_memory_bytes", "process_start_time_seconds"})
    EXPECT_THAT(text, HasSubstr("\n" + std::string(name) + " ")) << "without labels";
}

TEST_F(ServiceTest, ReturnsTheLikeliestOfSeveralAnswers) {
  serve();
  const json asked = {{"seed", 3}, {"temperature", 2}, {"logprobs", 0}, {"prompt", {"Hi", "Ho"}}};
  const auto answers = [&](json more) {
    more.update(asked);
    more["max_tokens"] = 6;
    return json::parse(ask("/v1/completions", more)->wait().body);
  };
  const auto mean_of = [](const json& choice) {
    const auto values = choice.at("logprobs").at("token_logprobs").get<std::vector<double>>();
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const json all = answers({{"n", 5}}), best = answers({{"n", 2}, {"best_of", 5}});
  ASSERT_EQ(best.at("choices").size(), 4U);
  EXPECT_EQ(best.at("usage").at("completion_tokens"), 60) << "answers that are not returned count";
  for (size_t prompt = 0; prompt < 2; ++prompt) {
    std::vector<std::pair<double, std::string>> ranked;
    for (size_t i = 0; i < 5; ++i) {
      const json& choice = all.at("choices").at(prompt * 5 + i);
      ranked.emplace_back(-mean_of(choice), choice.at("text"));
    }
    std::ranges::sort(ranked);
    for (size_t i = 0; i < 2; ++i) {
      const json& choice = best.at("choices").at(prompt * 2 + i);
      EXPECT_EQ(choice.at("text"), ranked[i].second);
      EXPECT_EQ(choice.at("index"), prompt * 2 + i);
    }
  }
}

// Joins an answer's parts of a stream.
struct Streamed {
  std::string text;
  json token_ids = json::array(), prompt_token_ids;
};

Streamed read_stream(const std::string& body, bool is_chat) {
  Streamed all;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    const json event = json::parse(line.substr(6));
    const json& choice = event.at("choices").at(0);
    all.text += is_chat ? choice.at("delta").value("content", "") : choice.at("text").get<std::string>();
    for (const json& id : choice.value("token_ids", json::array())) all.token_ids.push_back(id);
    const json& holder = is_chat ? event : choice;
    if (!holder.contains("prompt_token_ids")) continue;
    EXPECT_TRUE(all.prompt_token_ids.is_null()) << "once";
    all.prompt_token_ids = holder.at("prompt_token_ids");
  }
  return all;
}

TEST_F(ServiceTest, ListsTokenIdsIfAsked) {
  serve();
  const auto whole = json::parse(complete(10, {{"return_token_ids", true}})->wait().body);
  const json& choice = whole.at("choices").at(0);
  EXPECT_EQ(choice.at("token_ids").get<std::vector<int32_t>>(), alone(10).tokens);
  EXPECT_EQ(choice.at("prompt_token_ids"), json({'H', 'i'}));
  const std::string body = complete(10, {{"return_token_ids", true}, {"stream", true}})->wait().body;
  const Streamed streamed = read_stream(body, false);
  EXPECT_EQ(streamed.text, choice.at("text"));
  EXPECT_EQ(streamed.token_ids, choice.at("token_ids"));
  EXPECT_EQ(streamed.prompt_token_ids, choice.at("prompt_token_ids"));
  EXPECT_FALSE(json::parse(complete(10)->wait().body).at("choices").at(0).contains("token_ids"));
}

TEST_F(ServiceTest, SaysWhatStoppedAnAnswer) {
  serve();
  const std::string text = alone(40).text;
  const auto choice_of = [&](const json& more) {
    return json::parse(complete(40, more)->wait().body).at("choices").at(0);
  };
  const std::string stop = text.substr(text.find('<'), 5);  // the text "<ID>" of a token that is not a byte
  const json stopped = choice_of({{"stop", stop}});
  EXPECT_EQ(stopped.at("stop_reason"), stop);
  EXPECT_EQ(stopped.at("text"), text.substr(0, text.find(stop)));
  const json included = choice_of({{"stop", stop}, {"include_stop_str_in_output", true}});
  EXPECT_EQ(included.at("text"), text.substr(0, text.find(stop) + stop.size()));
  const int32_t token = alone(40).tokens.at(5);
  EXPECT_EQ(choice_of({{"stop_token_ids", {token}}}).at("stop_reason"), token);
  EXPECT_FALSE(choice_of({}).contains("stop_reason"));
}

TEST_F(ServiceTest, KeepsTheEndOfAPromptThatIsTruncated) {
  serve();
  const auto prompt_of = [&](const json& more) {
    json body = {{"prompt", "0123456789"}, {"max_tokens", 3}, {"return_token_ids", true}, {"echo", true}};
    body.update(more);
    return json::parse(ask("/v1/completions", body)->wait().body);
  };
  const json cut = prompt_of({{"truncate_prompt_tokens", 4}});
  EXPECT_EQ(cut.at("choices").at(0).at("prompt_token_ids"), json({'6', '7', '8', '9'}));
  EXPECT_THAT(cut.at("choices").at(0).at("text").get<std::string>(), ::testing::StartsWith("6789"));
  EXPECT_EQ(cut.at("usage").at("prompt_tokens"), 4);
  EXPECT_EQ(prompt_of({{"truncate_prompt_tokens", 20}}).at("usage").at("prompt_tokens"), 10);
  const int context = toy_->engine.info().context;
  const json fitted = prompt_of({{"truncate_prompt_tokens", -1}, {"prompt", std::string(5000, 'x')}});
  EXPECT_EQ(fitted.at("usage").at("prompt_tokens"), context - 3);
  EXPECT_EQ(fitted.at("usage").at("completion_tokens"), 3);
  const json refused = prompt_of({{"truncate_prompt_tokens", context}});
  EXPECT_EQ(refused.at("error").at("param"), "truncate_prompt_tokens");
}

TEST_F(ServiceTest, TokenizesAndDetokenizes) {
  serve();
  const json tokens = json::parse(ask("/tokenize", {{"prompt", "Hi"}})->wait().body);
  EXPECT_EQ(tokens.at("count"), tokens.at("tokens").size());
  EXPECT_EQ(json::parse(ask("/detokenize", {{"tokens", tokens.at("tokens")}})->wait().body).at("prompt"),
            "Hi");
  EXPECT_EQ(ask("/detokenize", {{"tokens", {kVocabulary}}})->wait().status, 400);
  EXPECT_EQ(ask("/tokenize", {{"text", "Hi"}})->wait().status, 400);
}

TEST_F(ServiceTest, PathsArePercentDecoded) {
  serve({.alias = "org/name"});
  for (const char* path : {"/v1/models/org%2Fname", "/v1/models/org/name", "http://host/v1/models/org%2fname",
                           "/%76%31/models", "/health?x", "http://host/health"})
    EXPECT_EQ(ask(path)->wait().status, 200) << path;
  for (const char* path : {"/v1/models/%", "/v1/models/x%00", "health"})
    EXPECT_EQ(ask(path)->wait().status, 400) << path;
}

TEST_F(ServiceTest, BeyondTheLimitOfConnectionsOnlyOperatorsAreAnswered) {
  serve();
  const auto status = [&](const std::string& path) {
    const auto client = std::make_shared<Client>(
        HttpRequest{.method = "GET", .target = path, .authorization = {}, .body = {}, .beyond_limit = true});
    loop_.post([this, client] { service_->handler()(client); });
    return client->wait().status;
  };
  for (const char* path : {"/health", "/ready", "/metrics", "/version"}) EXPECT_EQ(status(path), 200) << path;
  EXPECT_EQ(status("/v1/models"), 503);
}

TEST_F(ServiceTest, TheClientsOwnIdIsKept) {
  serve();
  const auto client = std::make_shared<Client>(HttpRequest{.method = "POST",
                                                           .target = "/v1/completions",
                                                           .authorization = {},
                                                           .body = R"({"prompt": "Hi", "max_tokens": 1})",
                                                           .request_id = "mine"});
  loop_.post([this, client] { service_->handler()(client); });
  const HttpResponse answer = client->wait();
  EXPECT_THAT(answer.headers,
              ::testing::Contains(std::pair<std::string, std::string>("X-Request-Id", "mine")));
  ask("/health")->wait();
  ASSERT_EQ(records_.size(), 1U);
  EXPECT_EQ(records_[0].request_id, "mine");
  EXPECT_EQ(records_[0].id, json::parse(answer.body).at("id").get<std::string>());
}

TEST_F(ServiceTest, ATokenThatIsNotInTheVocabularyIsRefusedByItsParameter) {
  serve();
  const auto param = [&](const json& more) {
    const HttpResponse answer = complete(1, more)->wait();
    EXPECT_EQ(answer.status, 400) << more;
    return json::parse(answer.body).at("error").at("param");
  };
  EXPECT_EQ(param({{"logit_bias", {{std::to_string(kVocabulary), 1}}}}), "logit_bias");
  EXPECT_EQ(param({{"stop_token_ids", {kVocabulary}}}), "stop_token_ids");
}

TEST_F(ServiceTest, AStreamsHeadComesBeforeItsPromptIsRead) {
  serve({.silence = std::chrono::milliseconds(1)});
  stop_engine();
  const auto client = complete(3, {{"stream", true}});
  client->wait_for(": the answer is being made\n\n");  // the first pass has not run yet
  gate_.open();
  const std::string events = client->wait().body;
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  for (size_t at = 0; at < events.size(); at = events.find("\n\n", at) + 2)
    EXPECT_TRUE(events.compare(at, 6, "data: ") == 0 || events[at] == ':') << events.substr(at, 20);
}

// The bytes of a token's name in OpenAI's format.
std::string bytes_of_token_name(const std::string& name) {
  if (!name.starts_with("bytes:")) return name;
  std::string bytes;
  for (size_t at = name.find("\\x"); at != std::string::npos; at = name.find("\\x", at + 1))
    bytes += static_cast<char>(std::stoi(name.substr(at + 2, 2), nullptr, 16));
  return bytes;
}

size_t characters_of(const std::string& utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// The toy model's tokens are bytes: most are parts of characters or invalid UTF-8.
TEST_F(ServiceTest, TheTokensOfAnAnswerJoinToItsText) {
  serve();
  const auto check = [](const json& tokens, const json& offsets, const std::string& text) {
    std::string bytes, storage;
    Utf8Stream whole;
    size_t characters = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(offsets.at(i), characters);
      const std::string part = bytes_of_token_name(tokens.at(i).get<std::string>());
      characters += characters_of(whole.push(part));
      bytes += part;
    }
    EXPECT_EQ(utf8_lossy(bytes, &storage), text);
  };
  for (const uint64_t seed : {1, 2, 3}) {
    const json asked = {{"logprobs", 5}, {"temperature", 1}, {"seed", seed}};
    const json choice = json::parse(complete(60, asked)->wait().body).at("choices").at(0);
    const json& logprobs = choice.at("logprobs");
    EXPECT_EQ(logprobs.at("tokens").size(), 60U);
    check(logprobs.at("tokens"), logprobs.at("text_offset"), choice.at("text"));
    for (size_t i = 0; i < 60; ++i) {
      const json& top = logprobs.at("top_logprobs").at(i);
      EXPECT_EQ(top.at(logprobs.at("tokens").at(i).get<std::string>()), logprobs.at("token_logprobs").at(i));
      EXPECT_GE(top.size(), 5U);
      EXPECT_LE(top.size(), 6U) << "the likeliest, and the one that was drawn";
    }
  }
}

TEST_F(ServiceTest, TokensOfAStopStringAreNotListed) {
  serve();
  const std::string text = alone(40).text;
  const std::string stop = text.substr(text.find('<'), 5);  // the text "<ID>" of a token that is not a byte
  for (const bool stream : {false, true}) {
    const auto client = complete(40, {{"logprobs", 0}, {"stop", stop}, {"stream", stream}});
    const std::string body = client->wait().body;
    const size_t named = body.find("\"stop_reason\":\"" + stop + "\"");
    ASSERT_NE(named, std::string::npos) << body;
    EXPECT_EQ(body.find("\"" + stop + "\""), named + std::string("\"stop_reason\":").size()) << body;
  }
}

TEST_F(ServiceTest, APromptThatDoesNotFitIsRefused) {
  serve();
  const HttpResponse answer = ask("/v1/completions", {{"prompt", std::string(300, 'x')}})->wait();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body).at("error").at("code"), "context_length_exceeded");
  EXPECT_EQ(ask("/v1/completions", {{"prompt", {kVocabulary}}})->wait().status, 400);
}

TEST_F(ServiceTest, AStreamEndsWithItsReasonAndItsUsage) {
  serve();
  const auto client =
      complete(3, {{"stream", true}, {"stream_options", {{"include_usage", true}}}, {"n", 2}});
  const std::string events = client->wait().body;
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  EXPECT_THAT(events, HasSubstr("\"completion_tokens\":6"));
  size_t ends = 0;
  for (size_t at = 0; (at = events.find("\"finish_reason\":\"length\"", at)) != std::string::npos; ++at)
    ++ends;
  EXPECT_EQ(ends, 2U);
}

// The prompt is "Hi", two bytes.
TEST_F(ServiceTest, EchoListsThePromptsTokensBeforeThoseOfTheAnswer) {
  serve();
  const json choice =
      json::parse(complete(2, {{"echo", true}, {"logprobs", 1}})->wait().body).at("choices").at(0);
  const json& logprobs = choice.at("logprobs");
  EXPECT_EQ(choice.at("text"), "Hi" + alone(2).text);
  ASSERT_EQ(logprobs.at("tokens").size(), 4U);
  EXPECT_EQ(logprobs.at("tokens").at(0), "H");
  EXPECT_EQ(logprobs.at("tokens").at(1), "i");
  EXPECT_EQ(logprobs.at("text_offset").at(1), 1);
  EXPECT_EQ(logprobs.at("text_offset").at(2), 2) << "the answer's offsets count from the prompt's beginning";
  EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
  const std::vector<int32_t> before = {'H'};
  EXPECT_EQ(logprobs.at("token_logprobs").at(1), serval::testing::toy_log_probability(before, 'i'));
  EXPECT_EQ(logprobs.at("top_logprobs").at(1).size(), 1U);
}

TEST_F(ServiceTest, EchoWorksWithoutAnAnswerAndForSeveralPromptsAndAnswers) {
  serve();
  json body = {
      {"prompt", {{72, 105}, {72, 105, 33}}}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}, {"n", 2}};
  const json choices = json::parse(ask("/v1/completions", body)->wait().body).at("choices");
  ASSERT_EQ(choices.size(), 4U);
  for (const size_t index : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(choices.at(index).at("text"), "Hi");
    EXPECT_EQ(choices.at(index).at("logprobs").at("tokens"), json({"H", "i"}));
    EXPECT_TRUE(choices.at(index).at("logprobs").at("top_logprobs").is_null());
  }
  EXPECT_EQ(choices.at(3).at("logprobs").at("token_logprobs").size(), 3U);
  EXPECT_EQ(choices.at(3).at("finish_reason"), "length");
  body["prompt"] = "H";
  const json one = json::parse(ask("/v1/completions", body)->wait().body).at("choices").at(0).at("logprobs");
  EXPECT_EQ(one.at("token_logprobs"), json::array({nullptr})) << "a single token has no log-probability";
}

TEST_F(ServiceTest, AStreamBeginsWithTheEcho) {
  serve();
  const HttpResponse answer = complete(1, {{"echo", true}, {"logprobs", 1}, {"stream", true}})->wait();
  const size_t end = answer.body.find("\n\n");
  const json first = json::parse(answer.body.substr(6, end - 6)).at("choices").at(0);
  EXPECT_EQ(first.at("text"), "Hi");
  EXPECT_EQ(first.at("logprobs").at("tokens"), json({"H", "i"}));
}

TEST_F(ServiceTest, GivesLogProbabilitiesOfThePrompt) {
  serve();
  const HttpResponse answer = complete(1, {{"prompt_logprobs", 2}})->wait();
  const json choice = json::parse(answer.body).at("choices").at(0);
  ASSERT_EQ(choice.at("prompt_logprobs").size(), 2U);
  EXPECT_TRUE(choice.at("prompt_logprobs").at(0).is_null());
  const json token = choice.at("prompt_logprobs").at(1).at("105");
  EXPECT_EQ(token.at("decoded_token"), "i");
  EXPECT_EQ(token.at("rank"), 1) << "the toy backend lists the token itself first";
  EXPECT_EQ(choice.at("prompt_logprobs").at(1).size(), 2U);
  EXPECT_TRUE(choice.at("logprobs").is_null());
}

TEST_F(ServiceTest, SaysWhatClientsNeedToKnowOfTheTokenizer) {
  serve();
  const json info = json::parse(ask("/tokenizer_info")->wait().body);
  EXPECT_EQ(info.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(info.at("model_max_length"), 256);
  for (const char* member : {"bos_token", "eos_token", "chat_template"})
    EXPECT_TRUE(info.at(member).is_null()) << "the toy has none";
}

}  // namespace
}  // namespace serval::server
