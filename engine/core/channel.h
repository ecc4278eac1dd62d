// What a client and the loop share of a request: where its events go, and whether it is cancelled.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/include/serval/engine.h"

namespace serval {

// By which clients reach the loop of an engine while it runs passes. Outlives both.
struct CoreSignals {
  std::atomic<uint64_t> cancel_epoch{0};  // counts Engine::cancel(): what joined under another is cancelled
  std::atomic<bool> cancelled{false};     // some request is, since the loop looked
  std::atomic<bool> arrived{false};       // requests or calls wait to be taken
  std::atomic<std::thread::id> loop_thread{};

  // Throws Error(kUsage) on the loop's own thread, which would wait for itself.
  void refuse_loop_thread(const char* call) const;
};

// Events of one request or several that one reader takes. Thread-safe.
class EventQueue {
 public:
  struct Entry {
    uint64_t request = 0;  // the reader's number of it
    RequestEvent event;
  };
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  void push(Entry entry);
  // Wakes the reader, if it waits: once for all that was pushed.
  void flush();
  // The oldest, waited for until `deadline`, without one for ever.
  std::optional<Entry> pop(const Deadline& deadline);
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<Entry> entries_;
  bool reader_waits_ = false;
};

// One request's. Thread-safe, post() for the loop.
class Channel {
 public:
  Channel(std::shared_ptr<CoreSignals> signals, EventSink sink);
  Channel(std::shared_ptr<CoreSignals> signals, std::shared_ptr<EventQueue> queue, uint64_t request);

  void cancel() noexcept;
  bool cancel_wanted() const noexcept;
  // To the sink or the queue. A sink that throws cancels the request.
  void post(RequestEvent event) noexcept;
  const std::shared_ptr<EventQueue>& queue() const { return queue_; }  // null: there is a sink
  uint64_t request() const { return request_; }                        // the number that queue entries have

 private:
  const std::shared_ptr<CoreSignals> signals_;
  const uint64_t epoch_;
  const EventSink sink_;
  const std::shared_ptr<EventQueue> queue_;
  const uint64_t request_ = 0;
  std::atomic<bool> cancelled_{false};
};

// Takes the events of its requests. Once a request is cancelled, its tokens that were not taken yet are
// dropped, and an answer that has lost some finishes as kCancelled: so the reader sees it end where it
// cancelled it, however far the loop had come. For one thread at a time.
class EventReader {
 public:
  explicit EventReader(std::shared_ptr<CoreSignals> signals) : signals_(std::move(signals)) {}
  EventReader(EventReader&&) noexcept = default;
  EventReader& operator=(EventReader&&) = delete;
  ~EventReader() { cancel_all(); }

  // A channel for a request of `answers` answers, numbered 1, 2, …; the events are expected once open() is
  // called, when it is submitted.
  std::shared_ptr<Channel> make_channel();
  void open(const std::shared_ptr<Channel>& channel, uint32_t answers);

  // None once all answers of all open requests are complete, or at the deadline. `call`: for the error line
  // on the loop's thread.
  std::optional<EventQueue::Entry> next(const char* call, const EventQueue::Deadline& deadline = {});
  bool done() const { return open_.empty(); }
  bool ready() const { return !queue_->empty(); }  // next() would not wait
  void cancel(uint64_t request) noexcept;
  void cancel_all() noexcept;

 private:
  struct Open {
    std::shared_ptr<Channel> channel;
    std::vector<bool> lost_tokens;  // of each answer
    uint32_t answers_left;
  };
  bool drop(Open& open, EventQueue::Entry& entry);

  std::shared_ptr<CoreSignals> signals_;
  std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  uint64_t last_request_ = 0;
  std::unordered_map<uint64_t, Open> open_;
};

}  // namespace serval
