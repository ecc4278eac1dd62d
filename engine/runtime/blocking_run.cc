#include "engine/runtime/blocking_run.h"

#include <utility>

#include "engine/runtime/answers.h"

namespace serval {

BlockingRun::BlockingRun(Engine::Impl& engine, size_t requests)
    : engine_(engine), reader_(engine.core.signals()) {
  while (channels_.size() < requests) channels_.push_back(reader_.make_channel());
}

std::vector<Response> BlockingRun::run(std::vector<PreparedRequest> requests, const Callbacks& callbacks) {
  engine_.core.signals()->refuse_loop_thread("generate or decode_batch");
  std::vector<Submission> submissions;
  for (size_t i = 0; i < requests.size(); ++i) {
    first_response_.push_back(responses_.size());
    responses_.resize(responses_.size() + static_cast<size_t>(requests[i].answers));
    reader_.open(channels_[i], static_cast<uint32_t>(requests[i].answers));
    submissions.push_back({std::move(requests[i]), channels_[i]});
  }
  engine_.core.submit(std::move(submissions));
  try {
    take_events(callbacks);
  } catch (...) {
    reader_.cancel_all();
    take_events({});
    throw;
  }
  for (const Response& response : responses_) {
    if (response.finish == Finish::kError && response.error_kind != ErrorKind::kRuntime)
      throw_if_failed(response);
  }
  return std::move(responses_);
}

void BlockingRun::take_events(const Callbacks& callbacks) {
  while (std::optional<EventQueue::Entry> entry = reader_.next("generate or decode_batch")) {
    RequestEvent& event = entry->event;
    const size_t index = first_response_[entry->request - 1] + event.answer;
    add_event(responses_[index], event);
    if (event.kind != RequestEvent::Kind::kToken) {
      if (callbacks.on_response) callbacks.on_response(index, responses_[index]);
    } else if (callbacks.on_token) {
      event.token.sequence = callbacks.first_number + index;
      if (!callbacks.on_token(event.token)) reader_.cancel(entry->request);
    }
  }
}

}  // namespace serval
