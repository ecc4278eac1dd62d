#include "engine/runtime/request_handle.h"

#include <utility>

#include "engine/runtime/answers.h"

namespace serval {
namespace {

std::optional<RequestEvent> event_of(std::optional<EventQueue::Entry> entry) {
  if (!entry) return std::nullopt;
  return std::move(entry->event);
}

}  // namespace

RequestHandle::RequestHandle() = default;
RequestHandle::RequestHandle(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RequestHandle::RequestHandle(RequestHandle&&) noexcept = default;
RequestHandle& RequestHandle::operator=(RequestHandle&&) noexcept = default;
RequestHandle::~RequestHandle() = default;

std::optional<RequestEvent> RequestHandle::next() {
  if (done()) return std::nullopt;
  return event_of(impl_->reader.next("RequestHandle::next"));
}

std::optional<RequestEvent> RequestHandle::next(std::chrono::nanoseconds timeout) {
  if (done()) return std::nullopt;
  return event_of(impl_->reader.next("RequestHandle::next", std::chrono::steady_clock::now() + timeout));
}

std::vector<Response> RequestHandle::wait() {
  if (!impl_) return {};
  std::vector<Response> responses(impl_->answers);
  while (const auto event = next()) add_event(responses[event->answer], *event);
  return responses;
}

bool RequestHandle::done() const {
  return !impl_ || impl_->reader.done();
}

void RequestHandle::cancel() noexcept {
  if (impl_) impl_->channel->cancel();
}

}  // namespace serval
