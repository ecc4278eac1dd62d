// Programs that are compiled while others run.
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

// Compiles each program once: on a thread of its own, one after the other in their order, or on the thread
// that needs one with which no other has begun. Thread-safe, but for the destructor.
class CompileQueue {
 public:
  // May throw when it sees that it is to stop.
  using Job = std::function<ValidProgram(const std::stop_token&)>;

  // Begins at once.
  explicit CompileQueue(std::vector<Job> jobs);
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;
  // Stops the job in hand as soon as it lets itself be stopped; those behind it are not begun.
  ~CompileQueue();

  // Returns when it is compiled. Throws what its job threw, each time.
  const Program& program(size_t index);

 private:
  enum class Step { kWaits, kUnderWay, kDone };
  struct Entry {
    Job job;
    Step step = Step::kWaits;
    std::optional<ValidProgram> program;
    std::exception_ptr failure;  // instead
  };

  void run();
  // With the lock held, which it gives back while it compiles.
  void compile(Entry& entry, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Entry> entries_;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace serval
