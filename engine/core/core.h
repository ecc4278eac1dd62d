// The engine's thread, and the way to it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/pass_loop.h"
#include "engine/text/text_codec.h"

namespace serval {

// A request on its way to the loop.
struct Submission {
  PreparedRequest request;
  std::shared_ptr<Channel> channel;
};

// Runs a PassLoop on a thread of its own from beginning to end. Thread-safe, but for the destructor.
class Core {
 public:
  // `backend` and `text` outlive it; only the loop's thread uses the backend, but for request_stop(). Throws
  // as PassLoop. `load_ms` is passed on to the responses.
  Core(Backend& backend, const TextCodec& text, double load_ms, const PassLoopOptions& options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { shutdown(); }

  const std::shared_ptr<CoreSignals>& signals() const { return signals_; }
  // None joins before all are queued. Throws Error(kUsage) after shutdown().
  void submit(std::vector<Submission> submissions);
  // What is submitted now finishes as kCancelled. Signal handlers too.
  void cancel_all() noexcept;
  // The same for good; returns when the thread has ended.
  void shutdown();
  // Runs `call` on the loop's thread between two launches; returns when it is done, and throws what it
  // throws, and Error(kUsage) after shutdown().
  void on_loop(const std::function<void()>& call);
  // Returns when nothing runs and nothing waits, and all KV blocks are back.
  void wait_until_idle();
  EngineStats stats() const;  // as of the last launch

 private:
  struct Inbox {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<std::function<void()>> calls;
    bool empty() const { return sequences.empty() && calls.empty(); }
  };

  std::unique_ptr<Sequence> sequence_of(Submission submission, TimePoint now) const;
  // Returns whether the loop was at work.
  bool put(const std::function<void(Inbox&)>& what);
  void run();
  bool take_inbox();

  Backend& backend_;
  const TextCodec& text_;
  const double load_ms_;
  TimePoint (*const now_)();
  const std::shared_ptr<CoreSignals> signals_ = std::make_shared<CoreSignals>();
  std::atomic<bool> has_room_{true};  // for another sequence in the launch in flight
  PassLoop loop_;                     // its thread's

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_changed_;
  Inbox inbox_;
  bool ending_ = false;
  bool idle_ = true;
  EngineStats stats_;
  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace serval
