#include "engine/server/service/service.h"

#include <algorithm>
#include <array>
#include <future>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/server/api/json_text.h"
#include "engine/server/api/message_request.h"
#include "engine/server/api/token_requests.h"
#include "engine/server/http/request_id.h"
#include "engine/server/http/target.h"
#include "engine/server/page/page.h"
#include "engine/server/service/encode.h"
#include "engine/server/service/trace.h"
#include "vm/base/error.h"
#include "vm/base/json_fields.h"
#include "vm/base/version.h"

namespace serval::server {
namespace {

using Clock = Generation::Clock;

constexpr const char* kMessagesPath = "/v1/messages";
constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kRedNotice{1000};  // how long /health says "red" before the server ends

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string new_answer_id(TextPath path) {
  return new_request_id(path == TextPath::kChat         ? "chatcmpl-"
                        : path == TextPath::kResponses  ? "resp_"
                        : path == TextPath::kMessages   ? "msg_"
                        : path == TextPath::kEmbeddings ? "embd-"
                                                        : "cmpl-");
}

// True if the path is served over spare connections, too, so that operators can still reach it.
bool is_for_operators(Action action) {
  return action == Action::kHealth || action == Action::kReady || action == Action::kMetrics ||
         action == Action::kVersion;
}

Target target_of(const HttpRequest& request) {
  if (const auto target = read_target(request.target)) return *target;
  throw ApiError(400, "bad_request",
                 shown(request.target) + ": expected a path, with %XX where it is encoded");
}

// The answer to a request that has failed before it was queued, in the form of the API that its path belongs
// to.
HttpResponse error_answer(const HttpRequest& request, const ApiError& error) {
  const auto target = read_target(request.target);
  if (!target || !target->path.starts_with(kMessagesPath)) return error_response(error);
  return error_response(error, ApiStyle::kAnthropic,
                        request.request_id.empty() ? new_request_id() : request.request_id);
}

// The text that `call` returns, or the answer to the error that it throws.
template <typename Call>
HttpResponse answer_of(const HttpRequest& request, Call&& call) {
  try {
    return {.body = call()};
  } catch (const ApiError& error) {
    return error_answer(request, error);
  } catch (const Error& error) {
    return error_answer(request, engine_error(error.kind(), error.what()));
  } catch (const std::exception& error) {
    return error_answer(request, ApiError(500, "internal_error", error.what()));
  }
}

// Clients of Anthropic's API name the version that they speak. What this server reads and answers is the same
// in these.
void check_anthropic_version(const HttpRequest& request) {
  constexpr std::array<std::string_view, 2> kVersions = {"2023-06-01", "2026-10-21"};
  const std::string& version = request.anthropic_version;
  if (version.empty() || std::ranges::find(kVersions, version) != kVersions.end()) return;
  throw ApiError(
      400, "invalid_value",
      fmt::format("anthropic-version: {}; expected {}", shown(version), fmt::join(kVersions, " or ")),
      "anthropic-version");
}

std::string counted(const Engine& engine, TextRequest request, const AnswerFormats& formats) {
  return count_answer(encode(engine, std::move(request), formats).text.prompt_ids.front().size());
}

std::string tokenized(const Engine& engine, const TokenizeRequest& request, const AnswerFormats& formats) {
  const bool is_text = std::holds_alternative<std::string>(request.prompt);
  const std::vector<int32_t> ids = encode_prompt(
      engine, request.prompt, {request.options, request.chat, formats}, is_text ? "prompt" : "messages");
  return tokenize_answer(ids, engine.info().context);
}

std::string detokenized(const Engine& engine, const DetokenizeRequest& request) {
  return detokenize_answer(engine.detokenize(request.tokens, !request.skip_special_tokens));
}

}  // namespace

Service::Service(Loop& loop, ServiceOptions options)
    : loop_(loop),
      options_(std::move(options)),
      pump_(std::make_shared<EventPump>(loop)),
      admission_(options_.max_queue),
      workers_(options_.workers) {
  loop_.every(kTick, [this] { check_time(); });
}

void Service::loading(const char* stage, uint64_t done, uint64_t total) {
  loop_.post([this, stage = std::string(stage), done, total] { status_.load(stage.c_str(), done, total); });
}

void Service::attach(Engine& engine) {
  loop_.post([this, &engine] {
    engine_ = &engine;
    defaults_ = {options_.alias.empty() ? engine.info().name : options_.alias, engine.info().model_sampling};
    formats_ = answer_formats(engine.info(), options_.tool_parser, options_.reasoning_parser);
    created_ = unix_seconds();
    if (status_.state() == Status::State::kLoading) status_.serve();
    admission_.open(engine, pump_);
  });
}

void Service::detach() {
  on_loop([this] {
    engine_ = nullptr;
    admission_.close();
  });
  workers_.wait_until_idle();
}

void Service::drain(std::chrono::duration<double> patience) {
  loop_.post([this, patience] {
    if (drain_until_) return;
    if (status_.state() != Status::State::kRed) status_.drain();
    drain_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  });
}

HttpHandler Service::handler() {
  return [this](const std::shared_ptr<Exchange>& exchange) {
    try {
      handle(exchange);
    } catch (const ApiError& error) {
      metrics_.refuse(error.status);
      exchange->respond(error_answer(exchange->request(), error));
    }
  };
}

void Service::handle(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const auto [path, query] = target_of(request);
  const Route& route = find_route(path);
  if (request.beyond_limit && !is_for_operators(route.action)) {
    ApiError error(503, "bad_request", "too many connections are open; try again later");
    error.retry_after_s = 1;
    throw error;
  }
  const std::string* key = options_.keys.name_of(request.authorization);
  if (key == nullptr && !request.api_key.empty()) key = options_.keys.name_of_key(request.api_key);
  if (route.needs_key && key == nullptr)
    throw ApiError(
        401, "invalid_api_key",
        "expected the header Authorization: Bearer KEY, or x-api-key: KEY, with a key of this server");
  check_method(route, request.method);
  switch (route.action) {
    case Action::kPage:
      return exchange->respond(chat_page());
    case Action::kHealth:
      return exchange->respond(status_.health());
    case Action::kReady:
      return exchange->respond(status_.ready());
    case Action::kVersion:
      return exchange->respond({.body = json_text({{"version", version()}})});
    case Action::kMetrics:
      return exchange->respond(metrics());
    case Action::kTrace:
      return answer_on_worker(exchange, [engine = engine_, tokens = trace_tokens_of(query)] {
        return trace_of(*engine, tokens);
      });
    case Action::kModels:
      return exchange->respond(models(name_after(route, path)));
    case Action::kCompletions:
      return take_text(exchange, TextPath::kCompletions, path, *key);
    case Action::kChat:
      return take_text(exchange, TextPath::kChat, path, *key);
    case Action::kResponses:
      return take_text(exchange, TextPath::kResponses, path, *key);
    case Action::kMessages:
      check_anthropic_version(request);
      return take_text(exchange, TextPath::kMessages, path, *key);
    case Action::kEmbeddings:
      return take_text(exchange, TextPath::kEmbeddings, path, *key);
    case Action::kCountTokens:
      check_anthropic_version(request);
      return answer_on_worker(
          exchange, [exchange, engine = engine_, defaults = defaults_, formats = formats_] {
            return counted(*engine, parse_count_request(exchange->request().body, defaults), formats);
          });
    case Action::kTokenize:
      return answer_on_worker(
          exchange, [exchange, engine = engine_, defaults = defaults_, formats = formats_] {
            return tokenized(*engine, parse_tokenize_request(exchange->request().body, defaults), formats);
          });
    case Action::kDetokenize:
      return answer_on_worker(exchange, [exchange, engine = engine_, defaults = defaults_] {
        return detokenized(*engine, parse_detokenize_request(exchange->request().body, defaults));
      });
    case Action::kTokenizerInfo:
      status_.check_serving();
      return exchange->respond({.body = tokenizer_info_answer(engine_->info())});
  }
}

HttpResponse Service::metrics() const {
  const EngineStats stats = engine_ == nullptr ? EngineStats() : engine_->stats();
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = metrics_.text(
              defaults_.name,
              {.engine = stats, .waiting = admission_.waiting(), .streams = admission_.running()})};
}

HttpResponse Service::models(const std::string& wanted) const {
  status_.check_serving();
  if (!wanted.empty() && wanted != defaults_.name)
    throw ApiError(404, "model_not_found", "this model is not served here; /v1/models lists those that are",
                   "model");
  const nlohmann::ordered_json model = {{"id", defaults_.name},
                                        {"object", "model"},
                                        {"created", created_},
                                        {"owned_by", "serval"},
                                        {"max_model_len", engine_->info().context}};
  if (!wanted.empty()) return {.body = json_text(model)};
  return {.body = json_text({{"object", "list"}, {"data", nlohmann::ordered_json::array({model})}})};
}

void Service::take_text(const std::shared_ptr<Exchange>& exchange, TextPath path, const std::string& name,
                        const std::string& key) {
  status_.check_serving();
  admission_.reserve();
  Generation::Arrival arrival{
      .number = ++last_number_, .key = key, .path = name, .exchange = exchange, .at = Clock::now()};
  if (options_.timeout.count() > 0)
    arrival.deadline = arrival.at + std::chrono::duration_cast<Clock::duration>(options_.timeout);
  workers_.run([this, path, arrival = std::move(arrival), engine = engine_, defaults = defaults_,
                formats = formats_]() mutable {
    const auto encoded = std::make_shared<EncodedRequest>();
    HttpResponse refused = answer_of(arrival.exchange->request(), [&] {
      *encoded =
          encode(*engine, parse_text_request(arrival.exchange->request().body, path, defaults), formats);
      return std::string();
    });
    loop_.post([this, arrival = std::move(arrival), encoded, refused = std::move(refused)] {
      admission_.release();
      if (refused.status == 200) return add(arrival, std::move(*encoded));
      metrics_.refuse(refused.status);
      arrival.exchange->respond(refused);
    });
  });
}

void Service::add(Generation::Arrival arrival, EncodedRequest request) {
  const TextPath path = request.text.path;
  const auto generation = std::make_shared<Generation>(
      std::move(arrival), std::move(request),
      AnswerIdentity{new_answer_id(path), defaults_.name, unix_seconds()},
      [this](Generation& of) { on_end(of); }, [this](double seconds) { metrics_.add_gap(seconds); });
  admission_.add(generation);
  if (status_.state() == Status::State::kRed) generation->fail(engine_failed(fault_));
}

void Service::on_end(Generation& generation) {
  if (!generation.fault().empty()) on_fault(generation.fault());
  metrics_.add(generation.record());
  if (options_.on_record) options_.on_record(generation.record());
  admission_.on_end(generation);
}

void Service::answer_on_worker(std::shared_ptr<Exchange> exchange, std::function<std::string()> answer) {
  status_.check_serving();
  workers_.run([this, exchange = std::move(exchange), answer = std::move(answer)]() mutable {
    HttpResponse response = answer_of(exchange->request(), answer);
    answer = {};
    loop_.post(
        [exchange = std::move(exchange), response = std::move(response)] { exchange->respond(response); });
  });
}

// Fails all requests: none can run without the engine.
void Service::on_fault(const std::string& line) {
  if (status_.state() == Status::State::kRed) return;
  fault_ = line;
  status_.turn_red(line);
  admission_.close();
  loop_.post([this] { admission_.fail_all(engine_failed(fault_)); });
  loop_.after(kRedNotice, [this] { end(Outcome::kFault); });
}

void Service::check_time() {
  const auto now = Clock::now();
  admission_.check_time(now, options_.silence);
  if (!drain_until_ || status_.state() == Status::State::kRed) return;
  if (*drain_until_ <= now) admission_.fail_all({503, "shutting_down", "the server is shutting down"});
  if (admission_.idle()) end(Outcome::kDrained);
}

void Service::end(Outcome outcome) {
  const std::lock_guard lock(outcome_mutex_);
  if (!outcome_) outcome_ = outcome;
  outcome_changed_.notify_all();
}

Service::Outcome Service::wait() {
  std::unique_lock lock(outcome_mutex_);
  outcome_changed_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

// Runs `call` on the loop's thread and returns when it has run.
void Service::on_loop(const std::function<void()>& call) {
  std::promise<void> done;
  loop_.post([&] {
    call();
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace serval::server
