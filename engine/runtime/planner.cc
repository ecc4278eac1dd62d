#include "engine/runtime/planner.h"

#include <algorithm>
#include <cassert>

namespace serval {
namespace {

bool reads_prompt(const SequenceProgress& s) {
  return s.computed < s.prompt_length;
}

void add_prompt_rows(PassPlan& plan, uint32_t index, const SequenceProgress& s) {
  const uint32_t room = kMaxRows - plan.num_rows;
  const uint32_t end = std::min(s.prompt_length, s.computed + room);
  for (uint32_t position = s.computed; position < end; ++position) {
    const bool last = position + 1 == s.prompt_length;
    plan.rows[plan.num_rows++] = {index, position, last && s.generates};
  }
  if (end < s.prompt_length) plan.prompts_complete = false;
}

}  // namespace

PassPlan plan_pass(std::span<const SequenceProgress> sequences) {
  assert(sequences.size() <= kMaxRows);
  PassPlan plan;
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (!reads_prompt(sequences[i])) plan.rows[plan.num_rows++] = {i, sequences[i].computed, true};
  }
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (reads_prompt(sequences[i])) add_prompt_rows(plan, i, sequences[i]);
  }
  return plan;
}

}  // namespace serval
