// Makes launches of the running sequences: plans them (planner.h) and writes them to the state block.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/pass_state.h"
#include "engine/core/planned_launch.h"
#include "engine/core/planner.h"
#include "engine/core/running_sequences.h"
#include "engine/core/wait_queue.h"

namespace serval {

// One thread at a time.
class LaunchPlanner {
 public:
  // All must outlive it.
  LaunchPlanner(RunningSequences& running, WaitQueue& waiting, KvBlockPool& pool, PassState& state,
                const PlannerLimits& limits)
      : running_(running), waiting_(waiting), pool_(pool), state_(state), limits_(limits) {}

  // The next launch, when none is in flight. There must be a running sequence. Sequences that lack KV blocks
  // are preempted.
  PlannedLaunch plan_next();
  // The launch after `current`, which is in flight, provided that no sampled token ends a sequence. Sets
  // LaunchShare::ends of `current`. None if no sequence remains, if their KV blocks do not suffice yet, if
  // `current` has drafts (how many tokens it makes is not known), or if a draft model is to make drafts for
  // that launch, since it needs all tokens.
  std::optional<PlannedLaunch> plan_after(PlannedLaunch& current);

  uint64_t cached_tokens() const { return cached_tokens_; }  // found in the KV cache after they had joined

 private:
  void view_running();
  void view_after(PlannedLaunch& current);
  void look_up_prefixes();
  uint32_t passes_to_decision(uint32_t passes, uint32_t drafts) const;
  PlannedLaunch write(const PassPlan& plan);

  RunningSequences& running_;
  WaitQueue& waiting_;
  KvBlockPool& pool_;
  PassState& state_;
  const PlannerLimits& limits_;
  // Input of a plan: sequences in service order, and their progress at the time the plan is for.
  std::vector<Sequence*> planned_;
  std::vector<SequenceView> views_;
  uint64_t cached_tokens_ = 0;
};

}  // namespace serval
