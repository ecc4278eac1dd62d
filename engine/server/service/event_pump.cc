#include "engine/server/service/event_pump.h"

#include <utility>

namespace serval::server {

EventSink EventPump::sink(std::shared_ptr<EventTarget> target, size_t prompt) {
  return [self = shared_from_this(), target = std::move(target), prompt](const RequestEvent& event) {
    self->push({target, prompt, event});
  };
}

void EventPump::push(Entry entry) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = entries_.empty();
    entries_.push_back(std::move(entry));
  }
  if (first) loop_.post([self = shared_from_this()] { self->drain(); });
}

void EventPump::drain() {
  std::vector<Entry> taken;
  {
    const std::lock_guard lock(mutex_);
    std::swap(taken, entries_);
  }
  for (const Entry& entry : taken) entry.target->on_event(entry.prompt, entry.event);
}

}  // namespace serval::server
