#include "engine/core/launch_planner.h"

#include <algorithm>
#include <cassert>

#include "vm/layout/kv_cache.h"

namespace serval {

PlannedLaunch LaunchPlanner::plan_next() {
  view_running();
  look_up_prefixes();
  PassPlan pass_plan = plan({views_, pool_.available()}, limits_);
  while (pass_plan.give_back) {
    running_.preempt(*pass_plan.give_back, waiting_);
    view_running();
    pass_plan = plan({views_, pool_.available()}, limits_);
  }
  return write(pass_plan);
}

std::optional<PlannedLaunch> LaunchPlanner::plan_after(PlannedLaunch& current) {
  if (current.has_drafts()) return std::nullopt;
  view_after(current);
  if (planned_.empty()) return std::nullopt;
  look_up_prefixes();
  // More blocks may be released in time. Sequences that are about to end still hold theirs, so even a single
  // remaining sequence may have too few.
  const CoreView view{views_, pool_.available()};
  if (!blocks_suffice(view, 1)) return std::nullopt;
  const PassPlan pass_plan = plan(view, limits_);
  if (limits_.drafts_by_model && pass_plan.drafts > 0) return std::nullopt;
  return write(pass_plan);
}

void LaunchPlanner::view_running() {
  planned_.clear();
  views_.clear();
  for (const auto& sequence : running_) {
    planned_.push_back(sequence.get());
    views_.push_back(sequence->view());
  }
}

// For sequences in flight their progress after the launch, for others their current progress.
void LaunchPlanner::view_after(PlannedLaunch& current) {
  planned_.clear();
  views_.clear();
  for (const auto& sequence : running_) {
    SequenceView view = sequence->view();
    if (LaunchShare* share = sequence->share()) {
      const std::optional<SequenceView> after = after_launch(view, share->rows, current.passes);
      share->ends = sequence->finished() || !after;
      if (share->ends) continue;
      view = *after;
    }
    planned_.push_back(sequence.get());
    views_.push_back(view);
  }
}

// A prompt may have the same beginning as one that another sequence has read in the meantime. Looks up only
// prompts that the next pass can read, to save time, and none that a launch in flight reads: their blocks are
// being written.
void LaunchPlanner::look_up_prefixes() {
  uint32_t rows = limits_.max_rows;
  for (size_t i = 0; i < planned_.size() && rows > 0; ++i) {
    Sequence& sequence = *planned_[i];
    const uint32_t computed = views_[i].computed;
    if (views_[i].length - computed == 1) continue;
    if (sequence.share() == nullptr && sequence.reuses_prefix() && computed % kKvBlockTokens == 0) {
      const uint32_t reused = sequence.chain().reuse(sequence.tokens(), sequence.reuse_limit());
      cached_tokens_ += reused - computed;
      sequence.reuse(reused);
      views_[i] = sequence.view();
    }
    rows -= std::min(rows, views_[i].length - views_[i].computed);
  }
}

// Limits `passes` to the number before the host has to decide something.
uint32_t LaunchPlanner::passes_to_decision(uint32_t passes, uint32_t drafts) const {
  // Followers join once the prompt is read, and only the last pass's likeliest tokens are kept.
  const auto ends_launch = [](const Sequence* sequence) {
    return !sequence->followers.empty() || sequence->lists_top();
  };
  if (std::ranges::any_of(planned_, ends_launch)) return 1;
  for (const Sequence* sequence : planned_) {
    const DraftControl& control = sequence->drafts();
    const bool has_drafts = drafts > 0 && control.next() > 0;
    if (control.model_reads() || (has_drafts && limits_.drafts_by_model)) return 1;
    if (has_drafts) passes = std::min(passes, control.passes());
  }
  if (waiting_.empty()) return passes;
  // A waiting sequence gets the next free place: either one is free before the launch, or the first sequence
  // that ends frees one.
  if (planned_.size() < running_.size()) return 1;
  for (const SequenceView& view : views_) {
    if (view.generates) passes = std::min(passes, tokens_to_end(view));
  }
  return passes;
}

PlannedLaunch LaunchPlanner::write(const PassPlan& plan) {
  const uint32_t passes = passes_to_decision(plan.passes, plan.drafts);
  for (size_t i = 0; i < planned_.size(); ++i) {
    [[maybe_unused]] const bool enough =
        planned_[i]->chain().grow_to(blocks_for_launch(views_[i], passes, plan.drafts));
    assert(enough);  // blocks_suffice() has checked this
  }
  PlannedLaunch launch = state_.write(plan, planned_, views_);
  launch.passes = passes;
  return launch;
}

}  // namespace serval
