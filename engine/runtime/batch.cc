#include <unordered_map>
#include <utility>

#include "fmt/format.h"

#include "engine/runtime/answers.h"
#include "engine/runtime/engine_impl.h"
#include "serval/engine.h"

namespace serval {

struct Batch::Impl {
  struct Sequence {
    Response response;
    bool ended = false;
  };

  explicit Impl(Engine& from) : engine(Engine::Impl::of(from)), reader(engine.core.signals()) {}

  Engine::Impl& engine;
  EventReader reader;
  std::unordered_map<uint64_t, Sequence> sequences;  // not taken yet
};

Batch::Batch(Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

uint64_t Batch::add(const Request& request) {
  PreparedRequest prepared = impl_->engine.prepare_single(request);
  const std::shared_ptr<Channel> channel = impl_->reader.make_channel();
  std::vector<Submission> submissions;
  submissions.push_back({std::move(prepared), channel});
  impl_->engine.core.submit(std::move(submissions));
  impl_->reader.open(channel, 1);
  impl_->sequences.emplace(channel->request(), Impl::Sequence{});
  return channel->request();
}

std::vector<TokenEvent> Batch::step() {
  std::vector<TokenEvent> tokens;
  while (!idle() && (tokens.empty() || impl_->reader.ready())) {
    std::optional<EventQueue::Entry> entry = impl_->reader.next("Batch::step");
    if (!entry) break;
    RequestEvent& event = entry->event;
    Impl::Sequence& sequence = impl_->sequences[entry->request];
    add_event(sequence.response, event);
    if (event.kind == RequestEvent::Kind::kToken) {
      event.token.sequence = entry->request;
      tokens.push_back(std::move(event.token));
    } else {
      sequence.ended = true;
      if (tokens.empty() && !impl_->reader.ready()) break;
    }
  }
  return tokens;
}

bool Batch::idle() const {
  return impl_->reader.done();
}

void Batch::cancel(uint64_t sequence) noexcept {
  impl_->reader.cancel(sequence);
}

Response Batch::take(uint64_t sequence) {
  const auto found = impl_->sequences.find(sequence);
  if (found == impl_->sequences.end() || !found->second.ended) {
    const bool runs = found != impl_->sequences.end();
    throw Error(ErrorKind::kUsage,
                fmt::format("sequence {}: {}", sequence, runs ? "still running" : "unknown handle"));
  }
  Response response = std::move(found->second.response);
  impl_->sequences.erase(found);
  return response;
}

}  // namespace serval
