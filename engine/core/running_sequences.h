// The sequences that have a slot and KV blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/draft_model.h"
#include "engine/core/kv_block_pool.h"
#include "engine/core/kv_domains.h"
#include "engine/core/pass_state.h"
#include "engine/core/planner.h"
#include "engine/core/sequence.h"
#include "engine/core/wait_queue.h"

namespace serval {

// In service order. One thread at a time.
class RunningSequences {
 public:
  // Counted since construction (EngineStats).
  struct Counts {
    uint64_t prompt_tokens = 0, cached_tokens = 0, preemptions = 0;
  };

  // All must outlive it. `draft_model` may be null.
  RunningSequences(KvBlockPool& pool, PassState& state, const PlannerLimits& limits, TimePoint (*now)(),
                   DraftModel* draft_model)
      : pool_(pool),
        state_(state),
        limits_(limits),
        now_(now),
        draft_model_(draft_model),
        domains_(pool.num_blocks()) {}

  bool empty() const { return sequences_.empty(); }
  size_t size() const { return sequences_.size(); }
  bool has_room() const { return size() < limits_.max_sequences; }
  auto begin() const { return sequences_.begin(); }
  auto end() const { return sequences_.end(); }
  const Counts& counts() const { return counts_; }

  // Lets the first waiting sequences join while there are slots and KV blocks. Returns how many joined.
  size_t admit(WaitQueue& waiting);
  // Sequence number `index` gives its slot and blocks back and waits again.
  void preempt(uint32_t index, WaitQueue& waiting);
  // Call it after a launch, or while its successor is in flight. Publishes full blocks, queues the followers
  // of sequences whose prompt is read, and removes sequences that have ended unless they are in flight.
  void retire(WaitQueue& waiting);

 private:
  // The last failed attempt of the queue's head to join.
  struct Refusal {
    ServiceOrder order;
    uint32_t available = 0;  // blocks that were available then
  };

  bool try_to_join(Sequence& sequence);
  bool has_blocks_for(const Sequence& sequence, uint32_t blocks);
  void release(Sequence& sequence);

  KvBlockPool& pool_;
  PassState& state_;
  const PlannerLimits& limits_;
  TimePoint (*const now_)();
  DraftModel* const draft_model_;
  KvDomains domains_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::optional<Refusal> refusal_;
  Counts counts_;
};

}  // namespace serval
