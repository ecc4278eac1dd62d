#include "engine/core/planner.h"

#include <algorithm>
#include <cassert>

#include "vm/layout/kv_cache.h"

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
    }
  }

 private:
  PassPlan& plan_;
  const PlannerLimits& limits_;
  uint32_t logit_rows_ = 0;
};

void fill(PassPlan& plan, const CoreView& view, const PlannerLimits& limits) {
  PassFiller filler(plan, limits);
  for (const bool reading : {false, true}) {
    for (uint32_t i = 0; i < view.running.size(); ++i) {
      if (reads(view.running[i]) == reading) filler.add(i, view.running[i]);
    }
  }
}

}  // namespace

bool blocks_suffice(const CoreView& view, uint32_t passes) {
  uint64_t wanted = 0;
  for (const SequenceView& s : view.running) {
    const uint32_t blocks = blocks_for_launch(s, passes);
    wanted += blocks - std::min(blocks, s.blocks);
  }
  return wanted <= view.available_blocks;
}

bool may_join(size_t running, uint32_t available_blocks, const PlannerLimits& limits, uint32_t blocks) {
  if (running >= limits.max_sequences) return false;
  return running == 0 || uint64_t{blocks} + running + 1 <= available_blocks;
}

uint32_t blocks_for_launch(const SequenceView& s, uint32_t passes) {
  return blocks_for_tokens(s.generates ? std::min(s.length - 1 + passes, s.end) : s.length);
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
  fill(plan, view, limits);
  // A pass after a piece of a prompt needs another program (engine/compile/program_set.h).
  if (plan.reads_prompts) return plan;
  plan.passes = limits.max_passes;
  while (plan.passes > 1 && !blocks_suffice(view, plan.passes)) plan.passes /= 2;
  return plan;
}

}  // namespace serval
