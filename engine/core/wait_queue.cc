#include "engine/core/wait_queue.h"

#include <utility>

namespace serval {

void WaitQueue::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrive(++arrivals_);
  followers_ += static_cast<uint32_t>(sequence->followers.size());
  for (const auto& follower : sequence->followers) follower->arrive(arrivals_);
  put_back(std::move(sequence));
}

void WaitQueue::put_back(std::unique_ptr<Sequence> sequence) {
  expiry_.watch(*sequence);
  const ServiceOrder order = sequence->order();
  sequences_.emplace(order, std::move(sequence));
}

void WaitQueue::release_followers(Sequence& leader) {
  for (auto& follower : leader.followers) {
    put_back(std::move(follower));
    --followers_;
  }
  leader.followers.clear();
}

std::unique_ptr<Sequence> WaitQueue::take_first() {
  std::unique_ptr<Sequence> first = std::move(sequences_.begin()->second);
  sequences_.erase(sequences_.begin());
  return first;
}

}  // namespace serval
