// Serialises the calls that run the model, and refuses a call from inside another one's callback, which would
// wait for itself.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "vm/base/error.h"

namespace serval {

class RunMutex {
 public:
  void lock() {
    if (owner_.load() == std::this_thread::get_id()) {
      throw Error(ErrorKind::kUsage, "engine: called from inside its own token callback");
    }
    mutex_.lock();
    owner_.store(std::this_thread::get_id());
  }
  void unlock() {
    owner_.store(std::thread::id());
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;
};

}  // namespace serval
