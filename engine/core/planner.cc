#include "engine/core/planner.h"

#include <algorithm>
#include <cassert>

#include "vm/layout/kv_cache.h"
#include "vm/state/slots.h"

namespace serval {
namespace {

bool reads(const SequenceView& s) {
  return s.computed < s.prompt;
}

// Adds rows of sequences to a pass until it is full.
class PassFiller {
 public:
  PassFiller(PassPlan& plan, const PlannerLimits& limits) : plan_(plan), limits_(limits) {}

  void add(uint32_t index, const SequenceView& s) {
    const uint32_t room = limits_.max_rows - static_cast<uint32_t>(plan_.rows.size());
    const uint32_t end = std::min(s.length, s.computed + room);
    for (uint32_t position = s.computed; position < end; ++position) {
      const PlannedRow row{.sequence = index,
                           .position = position,
                           .draws = position + 1 == s.length && s.generates,
                           .scores = position >= s.score_begin && position < s.score_end};
      if (row.wants_logits() && logit_rows_ == limits_.max_logit_rows) return;
      logit_rows_ += row.wants_logits() ? 1 : 0;
      plan_.rows.push_back(row);
      if (row.draws) add_drafts(std::min(plan_.drafts, s.drafts));
    }
  }

 private:
  // Rows after the last one, which draws.
  void add_drafts(uint32_t drafts) {
    plan_.rows.back().drafts = drafts;
    const PlannedRow draws = plan_.rows.back();
    for (uint32_t i = 1; i <= drafts; ++i)
      plan_.rows.push_back({.sequence = draws.sequence, .position = draws.position + i, .is_draft = true});
    logit_rows_ += drafts;
  }

  PassPlan& plan_;
  const PlannerLimits& limits_;
  uint32_t logit_rows_ = 0;
};

// Each sequence that may have drafts gets the same share of the rows that the others leave.
uint32_t drafts_of_pass(const CoreView& view, const PlannerLimits& limits) {
  const auto sequences = static_cast<uint32_t>(view.running.size());
  const auto drafting = static_cast<uint32_t>(
      std::ranges::count_if(view.running, [](const SequenceView& s) { return s.generates && s.drafts > 0; }));
  if (drafting == 0 || limits.max_draft_rows <= sequences) return 0;
  return std::min((limits.max_draft_rows - sequences) / drafting, kMaxDrafts);
}

void fill(PassPlan& plan, const CoreView& view, const PlannerLimits& limits) {
  PassFiller filler(plan, limits);
  for (const bool reading : {false, true}) {
    for (uint32_t i = 0; i < view.running.size(); ++i) {
      if (reads(view.running[i]) == reading) filler.add(i, view.running[i]);
    }
  }
}

}  // namespace

bool blocks_suffice(const CoreView& view, uint32_t passes, uint32_t drafts) {
  uint64_t wanted = 0;
  for (const SequenceView& s : view.running) {
    const uint32_t blocks = blocks_for_launch(s, passes, drafts);
    wanted += blocks - std::min(blocks, s.blocks);
  }
  return wanted <= view.available_blocks;
}

bool may_join(size_t running, uint32_t available_blocks, const PlannerLimits& limits, uint32_t blocks) {
  if (running >= limits.max_sequences) return false;
  return running == 0 || uint64_t{blocks} + running + 1 <= available_blocks;
}

uint32_t blocks_for_launch(const SequenceView& s, uint32_t passes, uint32_t drafts) {
  if (!s.generates) return blocks_for_tokens(s.length);
  const uint64_t positions = s.length - 1 + uint64_t{passes} * (1 + std::min(drafts, s.drafts));
  return blocks_for_tokens(static_cast<uint32_t>(std::min<uint64_t>(positions, s.end)));
}

std::optional<SequenceView> after_launch(SequenceView s, uint32_t rows, uint32_t passes) {
  s.computed += rows;
  if (s.computed < s.length) return s;
  if (!s.generates || tokens_to_end(s) <= passes) return std::nullopt;
  s.length += passes;
  s.computed = s.length - 1;
  return s;
}

PassPlan plan(const CoreView& view, const PlannerLimits& limits) {
  assert(!view.running.empty() && view.running.size() <= limits.max_rows);
  PassPlan plan;
  if (!blocks_suffice(view, 1) && view.running.size() > 1) {
    plan.give_back = static_cast<uint32_t>(view.running.size() - 1);
    return plan;
  }
  plan.rows.reserve(limits.max_rows);
  plan.reads_prompts = std::ranges::any_of(view.running, reads);
  // A pass after a piece of a prompt needs another program (engine/compile/program_set.h).
  if (!plan.reads_prompts) {
    plan.passes = limits.max_passes;
    plan.drafts = drafts_of_pass(view, limits);
    const auto suffice = [&] { return blocks_suffice(view, plan.passes, plan.drafts); };
    while (plan.passes > 1 && !suffice()) plan.passes /= 2;
    if (!suffice()) plan.drafts = 0;
  }
  fill(plan, view, limits);
  return plan;
}

}  // namespace serval
