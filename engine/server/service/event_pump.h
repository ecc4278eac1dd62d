// Moves the engine's events to the loop's thread. Posts one call for all events that arrive before it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/http/loop.h"

namespace serval::server {

// Receives a request's events on the loop's thread.
class EventTarget {
 public:
  virtual ~EventTarget() = default;
  virtual void on_event(size_t prompt, const RequestEvent& event) = 0;
};

// The engine's thread calls the sinks. They keep the pump alive, but the loop must outlive their calls.
class EventPump : public std::enable_shared_from_this<EventPump> {
 public:
  explicit EventPump(Loop& loop) : loop_(loop) {}
  // A sink for the events of one prompt's answers.
  EventSink sink(std::shared_ptr<EventTarget> target, size_t prompt);

 private:
  struct Entry {
    std::shared_ptr<EventTarget> target;
    size_t prompt;
    RequestEvent event;
  };
  void push(Entry entry);
  void drain();

  Loop& loop_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace serval::server
