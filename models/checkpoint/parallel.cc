#include "models/checkpoint/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace serval {

void for_each_piece(size_t count, const std::function<void(size_t)>& run,
                    const std::function<void(size_t)>& on_done) {
  std::atomic<size_t> next = 0;
  std::atomic<size_t> done = 0;
  const auto run_next = [&] {
    const size_t piece = next.fetch_add(1, std::memory_order_relaxed);
    if (piece >= count) return false;
    run(piece);
    done.fetch_add(1, std::memory_order_relaxed);
    return true;
  };
  struct StopOthers {
    std::atomic<size_t>& next;
    size_t count;
    ~StopOthers() { next = count; }
  };

  std::vector<std::jthread> helpers;  // joined before `next` and `done` are destroyed
  const StopOthers stop_others{next, count};
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  while (helpers.size() + 1 < std::min(cores, count))
    helpers.emplace_back([&] {
      while (run_next()) {
      }
    });
  while (run_next()) {
    const size_t so_far = done.load(std::memory_order_relaxed);
    if (on_done && so_far < count) on_done(so_far);
  }
  helpers.clear();
  if (on_done) on_done(count);
}

}  // namespace serval
