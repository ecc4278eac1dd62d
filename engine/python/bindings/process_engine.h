// An engine that belongs to the process which loaded it.
#pragma once

#include <memory>
#include <unistd.h>

#include "serval/engine.h"

namespace serval::python {

// Threads and GPU contexts do not survive fork(): a child process gets an error instead of a hang, and does
// not destroy what its parent uses.
class ProcessEngine {
 public:
  explicit ProcessEngine(const EngineOptions& options)
      : engine_(std::make_unique<Engine>(Engine::load(options))), process_(getpid()) {}
  ProcessEngine(const ProcessEngine&) = delete;
  ProcessEngine& operator=(const ProcessEngine&) = delete;
  ~ProcessEngine() {
    if (getpid() != process_) (void)engine_.release();
  }

  // Throws Error(kUsage) in a forked process, and after close().
  Engine& get() const {
    if (getpid() != process_) {
      throw Error(ErrorKind::kUsage,
                  "engine: loaded before fork(); load it in the child process, or start that with 'spawn'");
    }
    if (!engine_) throw Error(ErrorKind::kUsage, "engine: closed");
    return *engine_;
  }
  // Ends all requests and frees the model. Nothing happens the second time, nor in a forked process.
  void close() {
    if (getpid() == process_) engine_.reset();
  }

 private:
  std::unique_ptr<Engine> engine_;
  pid_t process_;
};

}  // namespace serval::python
