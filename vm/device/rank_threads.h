// The host's threads for the ranks of a program, one for each rank: CUDA calls for a rank's GPU are made on
// its thread, so that the ranks' calls overlap.
//
// Plain C++, also in builds without CUDA.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace serval {

// The thread that calls run() works for rank 0. The constructor starts one thread for each other rank; it
// sleeps between calls. With one rank, run() is a plain call.
class RankThreads {
 public:
  // `ranks`: at least 1. Throws std::system_error if the system cannot start a thread.
  explicit RankThreads(uint32_t ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(errors_.size()); }

  // Calls work(rank) for all ranks at the same time, each on its own thread, and returns when all have
  // returned. Writes before the call are visible to all of them, and their writes to the caller afterwards.
  // If `work` throws, rethrows the lowest rank's exception after all have returned; the object stays usable.
  // One call at a time, from any thread, but not from `work`.
  void run(const std::function<void(uint32_t rank)>& work);

 private:
  void serve(uint32_t rank);
  void do_work(uint32_t rank) noexcept;
  void wake_others();
  void end();

  std::vector<std::exception_ptr> errors_;  // [ranks] exceptions of the call
  const std::function<void(uint32_t)>* work_ = nullptr;
  bool ends_ = false;
  // Threads learn of a call through `calls_`, and the caller learns of their end through `running_`. These
  // two also order accesses to the members above.
  std::atomic<uint32_t> calls_{0};
  std::atomic<uint32_t> running_{0};  // threads still at work, without the caller's
  std::vector<std::thread> others_;   // for ranks 1, 2, …
};

}  // namespace serval
