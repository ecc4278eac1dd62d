// The engine's thread and its inbox.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/pass_loop.h"
#include "engine/text/text_codec.h"

namespace serval {

// A request in the inbox.
struct Submission {
  PreparedRequest request;
  std::shared_ptr<Channel> channel;
};

// Runs a PassLoop on a thread of its own from construction to shutdown. Thread-safe except for the
// destructor.
class Core {
 public:
  // `backend` and `text` must outlive it. Only the loop's thread uses the backend, except for request_stop().
  // Throws as PassLoop does. `load_ms` is copied into the responses.
  Core(Backend& backend, const TextCodec& text, double load_ms, const PassLoopOptions& options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() { shutdown(); }

  const std::shared_ptr<CoreSignals>& signals() const { return signals_; }
  // All of them are queued before any joins. Throws Error(kUsage) after shutdown().
  void submit(std::vector<Submission> submissions);
  // Requests submitted so far finish as kCancelled. May be called in a signal handler.
  void cancel_all() noexcept;
  // Cancels all requests, accepts no more, and returns when the thread has ended.
  void shutdown();
  // Runs `call` on the loop's thread between two launches and returns when it is done. Rethrows its
  // exception; throws Error(kUsage) after shutdown().
  void on_loop(const std::function<void()>& call);
  // Runs `call` on the loop's thread once all requests submitted so far have ended, after clearing the KV
  // cache; requests that are submitted meanwhile wait until it is done. Returns then, and throws as
  // on_loop(), also if shutdown() comes first. `cancel`: requests submitted so far finish as kCancelled.
  void between_requests(const std::function<void()>& call, bool cancel);
  // Returns when no request runs or waits and all KV blocks are released.
  void wait_until_idle();
  EngineStats stats() const;  // as of the last launch

 private:
  using Task = std::packaged_task<void()>;
  // What waits for the loop.
  struct Stage {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<Task> calls;
    // Runs when the loop has ended all sequences of this stage; the next stage waits for it. Not valid in the
    // last stage.
    Task last_call;
    bool empty() const { return sequences.empty() && calls.empty() && !last_call.valid(); }
  };

  std::unique_ptr<Sequence> sequence_of(Submission submission, TimePoint now) const;
  // Returns whether the loop was busy.
  bool put(const std::function<void()>& what);
  void run();
  bool take_inbox();
  Stage take_stage();

  Backend& backend_;
  const TextCodec& text_;
  const double load_ms_;
  TimePoint (*const now_)();
  const std::shared_ptr<CoreSignals> signals_ = std::make_shared<CoreSignals>();
  std::atomic<bool> has_room_{true};  // for another sequence in the current launch
  PassLoop loop_;                     // used by its thread only

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_changed_;
  std::deque<Stage> inbox_{1};
  bool ending_ = false;
  bool idle_ = true;
  EngineStats stats_;
  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace serval
