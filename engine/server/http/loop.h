// The one thread on which all connections are served, and what else it does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace serval::server {

// post() is thread-safe; the others are for the loop's own thread, or before it is started.
class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();  // stops

  void start();
  // Ends the thread; calls that were posted and have not run are dropped. Not on the loop's thread.
  void stop();
  void post(std::function<void()> call);
  void after(std::chrono::milliseconds delay, std::function<void()> call);
  // Each time `period` has passed, until the loop stops.
  void every(std::chrono::milliseconds period, std::function<void()> call);
  // Once, when `descriptor` can be read; it stays the caller's.
  void when_readable(int descriptor, std::function<void()> call);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace serval::server
