#include "engine/runtime/planner.h"

#include <algorithm>
#include <cassert>

namespace serval {
namespace {

bool reads_prompt(const SequenceProgress& s) {
  return s.computed < s.prompt_length;
}

void add_prompt_rows(PassPlan& plan, uint32_t max_rows, uint32_t index, const SequenceProgress& s) {
  const uint32_t room = max_rows - static_cast<uint32_t>(plan.rows.size());
  const uint32_t end = std::min(s.prompt_length, s.computed + room);
  for (uint32_t position = s.computed; position < end; ++position) {
    const bool last = position + 1 == s.prompt_length;
    plan.rows.push_back({index, position, last && s.generates});
  }
  if (end < s.prompt_length) plan.prompts_complete = false;
}

}  // namespace

PassPlan plan_pass(std::span<const SequenceProgress> sequences, uint32_t max_rows) {
  assert(sequences.size() <= max_rows);
  PassPlan plan;
  plan.rows.reserve(max_rows);
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (!reads_prompt(sequences[i])) plan.rows.push_back({i, sequences[i].computed, true});
  }
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (reads_prompt(sequences[i])) add_prompt_rows(plan, max_rows, i, sequences[i]);
  }
  return plan;
}

}  // namespace serval
