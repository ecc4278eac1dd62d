// Compiles programs while others run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "scheduler/valid_program.h"

namespace serval {

// Compiles each program once: in order on the queue's thread, or on the thread that needs a program whose
// compilation has not begun. Thread-safe except for the destructor.
class CompileQueue {
 public:
  // May throw when a stop is requested.
  using Job = std::function<ValidProgram(const std::stop_token&)>;

  // Starts compiling at once.
  explicit CompileQueue(std::vector<Job> jobs);
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;
  // Requests that the current job stop and waits for it; does not start the remaining jobs.
  ~CompileQueue();

  // Returns when the program is compiled. Throws its job's exception, on each call.
  const Program& program(size_t index);

 private:
  enum class Step { kWaits, kUnderWay, kDone };
  struct Entry {
    Job job;
    Step step = Step::kWaits;
    std::optional<ValidProgram> program;
    std::exception_ptr failure;  // set instead of program
  };

  void run();
  // Called with the lock held; releases it while it compiles.
  void compile(Entry& entry, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Entry> entries_;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace serval
