#include "serval/engine.h"

#include <mutex>
#include <utility>

#include "fmt/format.h"

#include "engine/runtime/engine_impl.h"

namespace serval {
namespace {

// Passes of one launch while nothing has to be decided between them. Longer ones save nothing more, and keep
// a request that joins waiting.
constexpr uint32_t kLaunchPasses = 64;

ModelLimits limits_of(const EngineParts& parts) {
  return {parts.info.vocab_size, static_cast<uint32_t>(parts.info.context), parts.text.stop_tokens};
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
    case Finish::kError:
      return "error";
  }
  return "unknown";
}

Response throw_if_failed(Response response) {
  if (response.finish == Finish::kError) throw Error(ErrorKind::kRuntime, response.error);
  return response;
}

Engine::Impl::Impl(EngineParts from)
    : parts(std::move(from)), limits(limits_of(parts)), kv(parts.backend->limits().kv_blocks) {}

Engine Engine::Impl::make(EngineParts parts) {
  return Engine(std::make_unique<Impl>(std::move(parts)));
}

std::vector<int32_t> Engine::Impl::encode_chat(std::span<const ChatMessage> messages) const {
  check_messages(messages);
  std::vector<ChatTurn> turns;
  for (const ChatMessage& message : messages) turns.push_back({message.role, message.content});
  return parts.text.encode_chat(turns);
}

PreparedRequest Engine::Impl::prepare(const Request& request) const {
  check_request(request);
  if (!request.prompt_ids.empty()) return prepare_request(request, request.prompt_ids, limits);
  if (!request.messages.empty()) return prepare_request(request, encode_chat(request.messages), limits);
  return prepare_request(request, parts.text.codec->encode(request.prompt), limits);
}

DecoderContext Engine::Impl::decoder_context() {
  return {*parts.backend, kv, *parts.text.codec, cancel_epoch, parts.load_ms};
}

std::vector<Response> Engine::Impl::run_to_end(std::vector<PreparedRequest> requests, uint64_t epoch,
                                               const TokenCallback& on_token) {
  const std::lock_guard lock(run_mutex);
  BatchDecoder decoder(decoder_context());
  const BatchDecoder::Sink sink = [&](const TokenEvent& event) { return !on_token || on_token(event); };
  size_t joined = 0;
  do {
    while (joined < requests.size() && (decoder.idle() || decoder.has_room_for(requests[joined]))) {
      decoder.add(std::move(requests[joined]), epoch);
      ++joined;
    }
    decoder.launch({.passes = kLaunchPasses, .stop_on_finish = joined < requests.size()}, sink);
  } while (!decoder.idle() || joined < requests.size());

  std::vector<Response> responses;
  for (uint64_t handle = 1; handle <= joined; ++handle) responses.push_back(decoder.take(handle));
  return responses;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

const ModelInfo& Engine::info() const {
  return impl_->parts.info;
}

std::vector<int32_t> Engine::tokenize(const std::string& text) const {
  return impl_->parts.text.codec->encode(text);
}

std::string Engine::detokenize(std::span<const int32_t> ids) const {
  check_token_ids("ids", ids, impl_->limits.vocab_size);
  return impl_->parts.text.codec->decode(ids);
}

std::vector<int32_t> Engine::tokenize_chat(std::span<const ChatMessage> messages) const {
  return impl_->encode_chat(messages);
}

Response Engine::generate(const Request& request, const TokenCallback& on_token) {
  const uint64_t epoch = impl_->cancel_epoch;
  TokenCallback renumbered;
  if (on_token) {
    renumbered = [&](const TokenEvent& event) {
      TokenEvent own = event;
      own.sequence = 0;
      return on_token(own);
    };
  }
  std::vector<PreparedRequest> requests;
  requests.push_back(impl_->prepare(request));
  return throw_if_failed(std::move(impl_->run_to_end(std::move(requests), epoch, renumbered).front()));
}

std::vector<Response> Engine::decode_batch(std::span<const Request> requests, const TokenCallback& on_token) {
  const uint64_t epoch = impl_->cancel_epoch;
  std::vector<PreparedRequest> prepared;
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      prepared.push_back(impl_->prepare(requests[i]));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("requests[{}]: {}", i, error.what()));
    }
  }
  return impl_->run_to_end(std::move(prepared), epoch, on_token);
}

void Engine::cancel() noexcept {
  ++impl_->cancel_epoch;
  impl_->parts.backend->request_stop();
}

}  // namespace serval
