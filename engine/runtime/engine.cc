#include "serval/engine.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

#include "engine/runtime/answers.h"
#include "engine/runtime/blocking_run.h"
#include "engine/runtime/engine_impl.h"
#include "engine/runtime/request_handle.h"

namespace serval {
namespace {

ModelLimits limits_of(const EngineParts& parts) {
  return {parts.info.vocab_size, static_cast<uint32_t>(parts.info.context), parts.text.stop_tokens,
          parts.pooling, static_cast<uint32_t>(parts.info.hidden_size)};
}

// The markers that are tokens of their own.
grammar::MarkerTokens marker_tokens(const TextCodec& codec) {
  grammar::MarkerTokens markers;
  for (size_t i = 0; i < grammar::kNumMarkers; ++i) {
    const std::vector<int32_t> ids = codec.encode(kMarkers[i], {SpecialTokens::kWritten, false});
    if (ids.size() == 1 && codec.token_bytes(ids.front(), SpecialTokens::kWritten) == kMarkers[i])
      markers.ids[i] = ids.front();
  }
  return markers;
}

SpecialTokens special_tokens(bool written) {
  return written ? SpecialTokens::kWritten : SpecialTokens::kNot;
}

}  // namespace

const char* name_of(Finish finish) {
  switch (finish) {
    case Finish::kNone:
      return "none";
    case Finish::kEos:
      return "eos";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kDeadline:
      return "deadline";
    case Finish::kError:
      return "error";
  }
  return "unknown";
}

Engine::Impl::Impl(EngineParts from)
    : parts(std::move(from)),
      limits(limits_of(parts)),
      constraints(
          static_cast<uint32_t>(limits.vocab_size),
          [codec = parts.text.codec.get()](int32_t id) {
            return codec->token_bytes(id, SpecialTokens::kNot);
          },
          marker_tokens(*parts.text.codec)),
      core(*parts.backend, *parts.text.codec, parts.load_ms, parts.loop) {}

Engine Engine::Impl::make(EngineParts parts) {
  return Engine(std::make_unique<Impl>(std::move(parts)));
}

std::vector<int32_t> Engine::Impl::encode_chat(std::span<const ChatMessage> messages,
                                               const ChatOptions& options) const {
  check_messages(messages);
  return parts.text.encode_chat(messages, options);
}

std::vector<int32_t> Engine::Impl::prompt_of(const Request& request) const {
  if (!request.prompt_ids.empty()) return request.prompt_ids;
  if (!request.messages.empty()) return encode_chat(request.messages, request.chat);
  return parts.text.codec->encode(request.prompt,
                                  {special_tokens(request.special), request.add_special_tokens});
}

std::shared_ptr<grammar::Constraint> Engine::Impl::constraint_of(const Request& request) {
  const std::optional<grammar::Format> format = format_of(request);
  const bool has_calls = request.tools.choice != ToolChoice::kNone;
  if (!has_calls && request.reasoning == Reasoning::kNone)
    return format ? constraints.of_format(*format) : nullptr;
  if (!has_calls && !format && request.max_reasoning_tokens < 0) return nullptr;
  return constraints.of_answer({.tools = request.tools, .reasoning = request.reasoning}, format);
}

std::optional<grammar::ReasoningLimit> Engine::Impl::reasoning_limit_of(const Request& request) {
  if (request.max_reasoning_tokens < 0) return std::nullopt;
  grammar::AnswerRules rules{.tools = request.tools, .reasoning = request.reasoning, .ends_reasoning = true};
  return grammar::ReasoningLimit{.reasoning = request.reasoning,
                                 .tokens = static_cast<uint32_t>(request.max_reasoning_tokens),
                                 .ending = constraints.of_answer(std::move(rules), format_of(request))};
}

std::vector<ShownToken> Engine::Impl::shown_tokens_of(const Request& request) const {
  std::vector<ShownToken> shown;
  if (request.tools.choice == ToolChoice::kNone && request.reasoning == Reasoning::kNone) return shown;
  for (size_t i = 0; i < grammar::kNumMarkers; ++i) {
    const auto token = constraints.markers().ids[i];
    if (token && !parts.text.codec->token_bytes(*token, SpecialTokens::kNot))
      shown.push_back({*token, std::string(kMarkers[i])});
  }
  return shown;
}

// Each word as it is written at the beginning of a text and after a space.
std::vector<std::vector<int32_t>> Engine::Impl::bad_words_of(const Request& request) const {
  std::vector<std::vector<int32_t>> words;
  for (const std::string& word : request.bad_words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
    for (const std::string& text : {bare, " " + bare}) {
      std::vector<int32_t> ids = parts.text.codec->encode(text, {SpecialTokens::kNot, false});
      if (!ids.empty()) words.push_back(std::move(ids));
    }
  }
  return words;
}

PreparedRequest Engine::Impl::prepare(const Request& request) {
  check_request(request);
  PreparedRequest prepared = prepare_request(request, prompt_of(request), limits);
  prepared.bad_words = bad_words_of(request);
  prepared.constraint = constraint_of(request);
  prepared.reasoning_limit = reasoning_limit_of(request);
  prepared.shown_tokens = shown_tokens_of(request);
  if (prepared.constraint && prepared.stop_tokens.empty()) {
    const std::optional<grammar::Format> format = format_of(request);
    throw Error(ErrorKind::kUsage, fmt::format("{}: the model has no token that ends a text",
                                               format ? grammar::name_of(format->kind) : "tools"));
  }
  return prepared;
}

std::vector<PreparedRequest> Engine::Impl::prepare(std::span<const Request> requests) {
  std::vector<PreparedRequest> prepared;
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      prepared.push_back(prepare(requests[i]));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("requests[{}]: {}", i, error.what()));
    }
  }
  return prepared;
}

PreparedRequest Engine::Impl::prepare_single(const Request& request) {
  if (request.n == 1) return prepare(request);
  throw Error(ErrorKind::kUsage, fmt::format("n: {}; limit: 1 for a single response", request.n));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

const ModelInfo& Engine::info() const {
  return impl_->parts.info;
}

std::vector<int32_t> Engine::tokenize(const std::string& text, const TokenizeOptions& options) const {
  return impl_->parts.text.codec->encode(text, {special_tokens(options.special), options.add_special_tokens});
}

std::string Engine::detokenize(std::span<const int32_t> ids, bool special) const {
  check_token_ids("ids", ids, impl_->limits.vocab_size);
  return impl_->parts.text.codec->decode(ids, special_tokens(special));
}

std::optional<std::string> Engine::token_bytes(int32_t id, bool special) const {
  check_token_ids("ids", std::span(&id, 1), impl_->limits.vocab_size);
  return impl_->parts.text.codec->token_bytes(id, special_tokens(special));
}

std::vector<int32_t> Engine::tokenize_chat(std::span<const ChatMessage> messages,
                                           const ChatOptions& options) const {
  return impl_->encode_chat(messages, options);
}

EngineStats Engine::stats() const {
  return impl_->core.stats();
}

void Engine::compile_constraint(const Request& request) const {
  impl_->constraint_of(request);
  impl_->reasoning_limit_of(request);
}

RequestHandle Engine::submit(const Request& request, EventSink sink) {
  EventReader reader(impl_->core.signals());
  const std::shared_ptr<Channel> channel =
      sink ? std::make_shared<Channel>(impl_->core.signals(), std::move(sink)) : reader.make_channel();
  PreparedRequest prepared = impl_->prepare(request);
  if (channel->queue() != nullptr) reader.open(channel, static_cast<uint32_t>(request.n));
  std::vector<Submission> submissions;
  submissions.push_back({std::move(prepared), channel});
  impl_->core.submit(std::move(submissions));
  return RequestHandle(
      std::make_unique<RequestHandle::Impl>(std::move(reader), channel, static_cast<uint32_t>(request.n)));
}

std::vector<RequestHandle> Engine::submit(std::span<const Request> requests) {
  std::vector<PreparedRequest> prepared = impl_->prepare(requests);
  std::vector<Submission> submissions;
  std::vector<RequestHandle> handles;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto answers = static_cast<uint32_t>(requests[i].n);
    EventReader reader(impl_->core.signals());
    const std::shared_ptr<Channel> channel = reader.make_channel();
    reader.open(channel, answers);
    submissions.push_back({std::move(prepared[i]), channel});
    handles.emplace_back(std::make_unique<RequestHandle::Impl>(std::move(reader), channel, answers));
  }
  impl_->core.submit(std::move(submissions));
  return handles;
}

Response Engine::generate(const Request& request, const TokenCallback& on_token) {
  BlockingRun run(*impl_, 1);
  std::vector<PreparedRequest> prepared;
  prepared.push_back(impl_->prepare_single(request));
  return throw_if_failed(
      std::move(run.run(std::move(prepared), {.first_number = 0, .on_token = on_token}).front()));
}

std::vector<Response> Engine::decode_batch(std::span<const Request> requests, const TokenCallback& on_token,
                                           const ResponseCallback& on_response) {
  BlockingRun run(*impl_, requests.size());
  return run.run(impl_->prepare(requests),
                 {.first_number = 1, .on_token = on_token, .on_response = on_response});
}

std::vector<Response> Engine::embed(std::span<const Request> requests) {
  if (!impl_->parts.pooling) {
    throw Error(ErrorKind::kUsage,
                "embeddings: this engine generates; load the model with EngineOptions::embeddings");
  }
  BlockingRun run(*impl_, requests.size());
  std::vector<Request> of_prompts(requests.begin(), requests.end());
  for (Request& request : of_prompts) request.max_tokens = 0;
  return run.run(impl_->prepare(of_prompts), {.first_number = 1});
}

void Engine::cancel() noexcept {
  impl_->core.cancel_all();
}

void Engine::shutdown() {
  impl_->core.signals()->refuse_loop_thread("shutdown");
  impl_->core.shutdown();
}

}  // namespace serval
