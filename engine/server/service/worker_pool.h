// Threads for work that would block the loop for too long: parsing bodies, encoding prompts.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace serval::server {

// Thread-safe except for the destructor, which waits for running tasks and drops the others.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  void run(std::function<void()> task);  // `task` must not throw
  void wait_until_idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  int busy_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace serval::server
