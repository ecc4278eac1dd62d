#include "instructions/planned_attention/plan_launch.h"

#include <algorithm>
#include <span>

#include "instructions/isa.h"
#include "vm/state/check_attention.h"
#include "vm/state/names.h"

namespace serval {

std::optional<AttentionPlanShape> attention_plan_shape(const Program& program) {
  if (!program.find_tensor(state_tensor::kAttention)) return std::nullopt;
  const auto found = std::ranges::find(program.instructions, static_cast<uint16_t>(Opcode::kPlannedAttention),
                                       &Instruction::opcode);
  if (found == program.instructions.end()) return std::nullopt;
  const auto op = found->as<PlannedAttention>();
  return AttentionPlanShape{.group_heads = program.heads.group_heads(),
                            .kv_heads = program.heads.kv_heads,
                            .records = op.records,
                            .places = std::min(op.places, kAttentionPlaces),
                            .rows = program.limits.rows};
}

void plan_launch(const AttentionPlanShape& shape, StateBlock& state) {
  plan_attention(
      shape, state.rows,
      [&](const PassRow& row) {
        return row.slot < state.slots.size() ? last_position(state, row) : row.position;
      },
      state.attention);
}

bool has_single_rows(const AttentionList& list) {
  return std::ranges::all_of(std::span(list.item(), list.items),
                             [](const AttentionItem& item) { return item.rows <= 1; });
}

}  // namespace serval
