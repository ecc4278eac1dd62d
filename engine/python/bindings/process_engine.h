// An engine that belongs to the process which loaded it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "serval/engine.h"

namespace serval::python {

// Threads and GPU contexts do not survive fork(): a child process gets an error instead of a hang, and does
// not destroy what its parent uses.
class ProcessEngine {
 public:
  // Throws what Engine::load() throws, and Error(kUsage) where CUDA cannot work: in a process that was forked
  // after an engine used a GPU.
  explicit ProcessEngine(const EngineOptions& options) : process_(getpid()) {
    refuse_cuda_after_fork(options);
    engine_ = std::make_shared<Engine>(Engine::load(options));
    if (engine_->info().backend == kDevice) cuda_process() = process_;
  }
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;
  ~ProcessEngine() {
    if (getpid() != process_) new std::shared_ptr<Engine>(std::move(engine_));  // never destroyed
  }

  // Keeps the engine in memory during a call, even if another thread closes it. Throws Error(kUsage) in a
  // forked process, and after close().
  std::shared_ptr<Engine> get() const {
    if (getpid() != process_) {
      throw Error(ErrorKind::kUsage,
                  "engine: loaded before fork(); load it in the child process, or start that with 'spawn'");
    }
    const std::lock_guard lock(mutex_);
    if (!engine_) throw Error(ErrorKind::kUsage, "engine: closed");
    return engine_;
  }
  // A call that waits for the engine without Python's lock. The interpreter must not end before it returns:
  // a thread that then asks for the lock would be ended inside of C++.
  class Call {
   public:
    explicit Call(const ProcessEngine& engine) : calls_(engine.calls_) { ++calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { --calls_; }

   private:
    std::atomic<int>& calls_;
  };
  bool has_calls() const { return calls_ > 0 && getpid() == process_; }

  // Ends all requests, and frees the model as soon as no call uses it. Nothing happens the second time, nor
  // in a forked process.
  void close() {
    if (getpid() != process_) return;
    std::shared_ptr<Engine> closed;
    {
      const std::lock_guard lock(mutex_);
      closed.swap(engine_);
    }
    if (closed) closed->shutdown();
  }

 private:
  static constexpr const char* kDevice = "device";

  // The process in which an engine used a GPU; 0: none.
  static std::atomic<pid_t>& cuda_process() {
    static std::atomic<pid_t> process{0};
    return process;
  }
  static void refuse_cuda_after_fork(const EngineOptions& options) {
    const pid_t process = cuda_process();
    if (process == 0 || process == getpid()) return;
    if (options.backend != kDevice && options.backend != "auto") return;
    throw Error(ErrorKind::kUsage,
                "engine: this process was forked after CUDA had begun, which does not work; start it with "
                "'spawn', or take backend host");
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Engine> engine_;
  pid_t process_;
  mutable std::atomic<int> calls_{0};
};

}  // namespace serval::python
