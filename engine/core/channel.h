// State that a client and the loop share for a request: where its events go and whether it is cancelled.
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

// Signals from clients to an engine's loop while it runs passes. Outlives both.
struct CoreSignals {
  std::atomic<uint64_t> cancel_epoch{0};  // counts Engine::cancel(); requests of an older epoch are cancelled
  std::atomic<bool> cancelled{false};     // some request was cancelled since the loop last checked
  std::atomic<bool> arrived{false};       // requests or calls wait in the inbox
  std::atomic<std::thread::id> loop_thread{};

  // Throws Error(kUsage) if called on the loop's own thread, which would deadlock.
  void refuse_loop_thread(const char* call) const;
};

// Events of one or more requests, consumed by one reader. Thread-safe.
class EventQueue {
 public:
  struct Entry {
    uint64_t request = 0;  // the reader's number for the request
    RequestEvent event;
  };
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  void push(Entry entry);
  // Wakes the reader if it waits: one wakeup for all events pushed so far.
  void flush();
  // Returns the oldest event. Waits for one until `deadline`, or forever without a deadline.
  std::optional<Entry> pop(const Deadline& deadline);
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<Entry> entries_;
  bool reader_waits_ = false;
};

// Event channel of one request. Thread-safe, but only the loop may call post().
class Channel {
 public:
  Channel(std::shared_ptr<CoreSignals> signals, EventSink sink);
  Channel(std::shared_ptr<CoreSignals> signals, std::shared_ptr<EventQueue> queue, uint64_t request);

  void cancel() noexcept;
  bool cancel_wanted() const noexcept;
  // Sends the event to the sink or the queue. A sink that throws cancels the request.
  void post(RequestEvent event) noexcept;
  const std::shared_ptr<EventQueue>& queue() const { return queue_; }  // null if the channel has a sink
  uint64_t request() const { return request_; }                        // the number in its queue entries

 private:
  const std::shared_ptr<CoreSignals> signals_;
  const uint64_t epoch_;
  const EventSink sink_;
  const std::shared_ptr<EventQueue> queue_;
  const uint64_t request_ = 0;
  std::atomic<bool> cancelled_{false};
};

// Delivers the events of its requests. After a request is cancelled, its undelivered tokens are dropped, and
// an answer that lost tokens finishes as kCancelled: the reader sees it end at the point of cancellation,
// even if the loop had already gone further. For one thread at a time.
class EventReader {
 public:
  explicit EventReader(std::shared_ptr<CoreSignals> signals) : signals_(std::move(signals)) {}
  EventReader(EventReader&&) noexcept = default;
  EventReader& operator=(EventReader&&) = delete;
  ~EventReader() { cancel_all(); }

  // Makes a channel for a request with the next number: 1, 2, … Call open() with it and the number of answers
  // when the request is submitted; next() waits for its events from then on.
  std::shared_ptr<Channel> make_channel();
  void open(const std::shared_ptr<Channel>& channel, uint32_t answers);

  // Returns no entry at the deadline, or once all answers of all open requests are complete. `call` names the
  // caller in the error for a call on the loop's thread.
  std::optional<EventQueue::Entry> next(const char* call, const EventQueue::Deadline& deadline = {});
  bool done() const { return open_.empty(); }
  bool ready() const { return !queue_->empty(); }  // next() would not wait
  void cancel(uint64_t request) noexcept;
  void cancel_all() noexcept;

 private:
  struct Open {
    std::shared_ptr<Channel> channel;
    std::vector<bool> lost_tokens;  // one flag for each answer
    uint32_t answers_left;
  };
  bool drop(Open& open, EventQueue::Entry& entry);

  std::shared_ptr<CoreSignals> signals_;
  std::shared_ptr<EventQueue> queue_ = std::make_shared<EventQueue>();
  uint64_t last_request_ = 0;
  std::unordered_map<uint64_t, Open> open_;
};

}  // namespace serval
