#include "engine/compile/compile_queue.h"

#include <utility>

#include "vm/base/signals_blocked.h"

namespace serval {

CompileQueue::CompileQueue(std::vector<Job> jobs) {
  for (Job& job : jobs) entries_.push_back({.job = std::move(job), .program = {}, .failure = {}});
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

CompileQueue::~CompileQueue() {
  stop_.request_stop();
  thread_.join();
}

const Program& CompileQueue::program(size_t index) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(index);
  if (entry.step == Step::kWaits) compile(entry, lock);
  done_.wait(lock, [&] { return entry.step == Step::kDone; });
  if (entry.failure) std::rethrow_exception(entry.failure);
  return **entry.program;
}

void CompileQueue::run() {
  std::unique_lock lock(mutex_);
  for (Entry& entry : entries_) {
    if (stop_.stop_requested()) return;
    if (entry.step == Step::kWaits) compile(entry, lock);
  }
}

void CompileQueue::compile(Entry& entry, std::unique_lock<std::mutex>& lock) {
  entry.step = Step::kUnderWay;
  lock.unlock();
  try {
    // Destroys the job, and the data that it owns, after the call.
    const Job job = std::exchange(entry.job, nullptr);
    entry.program.emplace(job(stop_.get_token()));
  } catch (...) {
    entry.failure = std::current_exception();
  }
  lock.lock();
  entry.step = Step::kDone;
  done_.notify_all();
}

}  // namespace serval
