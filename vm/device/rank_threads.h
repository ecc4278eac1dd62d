// The host's threads for the ranks of a program, one for each: what a rank's GPU is asked for is asked on its
// thread, so that the ranks' calls overlap.
//
// Plain C++: it is the same in builds without CUDA.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace serval {

// The thread that calls run() works for rank 0. The constructor makes a thread for each other rank, which
// sleeps between two calls. With one rank there are no others, and run() is a plain call.
class RankThreads {
 public:
  // `ranks`: at least 1. Throws std::system_error where the system gives no more threads.
  explicit RankThreads(uint32_t ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(errors_.size()); }

  // Calls work(rank) for all ranks at the same time, each on its own thread, and returns when all have
  // returned. What comes before the call is visible to all of them, and what they do to the caller
  // afterwards. Throws what work has thrown, of the lowest rank where several have; all have returned then,
  // too, and the next call is like any other. One call at a time, from any thread, but not from `work`.
  void run(const std::function<void(uint32_t rank)>& work);

 private:
  void serve(uint32_t rank);
  void do_work(uint32_t rank) noexcept;
  void wake_others();
  void end();

  std::vector<std::exception_ptr> errors_;  // [ranks] of the call
  const std::function<void(uint32_t)>* work_ = nullptr;
  bool ends_ = false;
  // The threads hear of a call by `calls_`, and the caller of their end by `running_`: what is above changes
  // hands with them.
  std::atomic<uint32_t> calls_{0};
  std::atomic<uint32_t> running_{0};  // threads, the caller's apart
  std::vector<std::thread> others_;   // of ranks 1, 2, …
};

}  // namespace serval
