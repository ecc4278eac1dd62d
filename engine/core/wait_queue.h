// Sequences that wait for a slot and KV blocks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "engine/core/expiry.h"
#include "engine/core/sequence.h"

namespace serval {

// In service order. Also counts the followers of all unfinished sequences, which wait for their leader's
// prompt. One thread at a time.
class WaitQueue {
 public:
  // Watches the deadlines of the sequences that it queues.
  explicit WaitQueue(Expiry& expiry) : expiry_(expiry) {}

  // Queues a new sequence after all earlier ones of its priority.
  void add(std::unique_ptr<Sequence> sequence);
  // Queues a sequence in its former order.
  void put_back(std::unique_ptr<Sequence> sequence);
  // Queues the sequence's followers.
  void release_followers(Sequence& leader);

  bool empty() const { return sequences_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(sequences_.size()) + followers_; }
  Sequence& first() { return *sequences_.begin()->second; }  // must not be empty
  std::unique_ptr<Sequence> take_first();

  // Calls end(sequence, reason) for each sequence for which reason_to_end(sequence) returns one, and removes
  // it. Its followers are queued, and asked next.
  template <class ReasonToEnd, class End>
  void end_if(ReasonToEnd&& reason_to_end, End&& end) {
    for (auto next = sequences_.begin(); next != sequences_.end();) {
      Sequence& sequence = *next->second;
      if (const std::optional<Finish> reason = reason_to_end(sequence)) {
        end(sequence, *reason);
        release_followers(sequence);  // they come after their leader in the queue
        next = sequences_.erase(next);
      } else {
        ++next;
      }
    }
  }

 private:
  Expiry& expiry_;
  uint64_t arrivals_ = 0;
  std::map<ServiceOrder, std::unique_ptr<Sequence>> sequences_;
  uint32_t followers_ = 0;
};

}  // namespace serval
