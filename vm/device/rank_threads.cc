#include "vm/device/rank_threads.h"

#include <utility>

namespace serval {
namespace {

// A launch's calls follow each other within microseconds, and the ranks end together: a thread polls for
// about 100 us before it sleeps, since waking it takes longer than most of these waits.
constexpr int kLooks = 200;

// Returns when the word differs from `old`; it may have the old value again by then.
void wait_while(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int look = 0; look < kLooks; ++look) {
    if (word.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

RankThreads::RankThreads(uint32_t ranks) : errors_(ranks) {
  try {
    for (uint32_t rank = 1; rank < ranks; ++rank) others_.emplace_back([this, rank] { serve(rank); });
  } catch (...) {
    end();
    throw;
  }
}

RankThreads::~RankThreads() {
  end();
}

void RankThreads::end() {
  ends_ = true;
  wake_others();
  for (std::thread& thread : others_) thread.join();
}

void RankThreads::wake_others() {
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
}

void RankThreads::run(const std::function<void(uint32_t)>& work) {
  if (others_.empty()) return work(0);
  work_ = &work;
  running_.store(static_cast<uint32_t>(others_.size()), std::memory_order_relaxed);
  wake_others();
  do_work(0);
  while (const uint32_t running = running_.load(std::memory_order_acquire)) wait_while(running_, running);
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_) {
    if (!first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(std::move(first));
}

void RankThreads::do_work(uint32_t rank) noexcept {
  try {
    (*work_)(rank);
  } catch (...) {
    errors_[rank] = std::current_exception();
  }
}

// No call is missed: the next one comes only after this thread has reported that it is done.
void RankThreads::serve(uint32_t rank) {
  for (uint32_t seen = 0;; ++seen) {
    while (calls_.load(std::memory_order_acquire) == seen) wait_while(calls_, seen);
    if (ends_) return;
    do_work(rank);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace serval
