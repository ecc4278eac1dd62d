// The event loop: one thread that serves all connections and runs posted calls and timers.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace serval::server {

// post() is thread-safe; call the others on the loop's own thread, or before start().
class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();  // stops

  void start();
  // Ends the thread and drops posted calls that have not run. Must not be called on the loop's thread.
  void stop();
  void post(std::function<void()> call);
  void after(std::chrono::milliseconds delay, std::function<void()> call);
  // Calls `call` each time `period` has passed, until the loop stops.
  void every(std::chrono::milliseconds period, std::function<void()> call);
  // Calls `call` once, when `descriptor` is readable. The caller keeps ownership of `descriptor`.
  void when_readable(int descriptor, std::function<void()> call);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval::server
