#include <mutex>
#include <utility>

#include "engine/runtime/batch_decoder.h"
#include "engine/runtime/engine_impl.h"
#include "serval/engine.h"

namespace serval {

struct Batch::Impl {
  explicit Impl(Engine& from) : engine(Engine::Impl::of(from)), decoder(engine.decoder_context()) {}

  Engine::Impl& engine;
  BatchDecoder decoder;
};

Batch::Batch(Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

uint64_t Batch::add(const Request& request) {
  const uint64_t epoch = impl_->engine.cancel_epoch;
  return impl_->decoder.add(impl_->engine.prepare(request), epoch);
}

std::vector<TokenEvent> Batch::step() {
  std::vector<TokenEvent> events;
  const std::lock_guard lock(impl_->engine.run_mutex);
  impl_->decoder.launch({.passes = 1}, [&](const TokenEvent& event) {
    events.push_back(event);
    return true;
  });
  return events;
}

bool Batch::idle() const {
  return impl_->decoder.idle();
}

void Batch::cancel(uint64_t sequence) noexcept {
  impl_->decoder.cancel(sequence);
}

Response Batch::take(uint64_t sequence) {
  return impl_->decoder.take(sequence);
}

}  // namespace serval
