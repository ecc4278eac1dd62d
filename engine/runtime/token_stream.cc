#include <utility>

#include "engine/runtime/answers.h"
#include "engine/runtime/engine_impl.h"
#include "serval/engine.h"

namespace serval {
namespace {

RequestHandle submit_single(Engine& engine, const Request& request) {
  if (request.n != 1) throw Error(ErrorKind::kUsage, "n: a TokenStream has one answer; set n to 1");
  return engine.submit(request);
}

}  // namespace

TokenStream::TokenStream(Engine& engine, const Request& request) : handle_(submit_single(engine, request)) {}

TokenStream::Iterator TokenStream::begin() {
  Iterator first;
  first.stream_ = this;
  return ++first;
}

TokenStream::Iterator& TokenStream::Iterator::operator++() {
  event_ = stream_->next();
  return *this;
}

const TokenEvent* TokenStream::next() {
  while (std::optional<RequestEvent> event = handle_.next()) {
    add_event(response_, *event);
    if (event->kind == RequestEvent::Kind::kToken) {
      current_ = std::move(event->token);
      return &current_;
    }
    response_ = throw_if_failed(std::move(response_));
  }
  return nullptr;
}

}  // namespace serval
