// The plan of attention for a program's launch.
#pragma once

#include <optional>

#include "instructions/planned_attention/plan.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// What the program's attention is planned for; none if it has no planned attention. Looks through the
// program: once for each, not for each launch.
std::optional<AttentionPlanShape> attention_plan_shape(const Program& program);

// Writes the state's list for the launch that the state describes: rows, slots and passes_wanted are set. The
// state has at least the program's rows, and may be one that check_state() refuses.
void plan_launch(const AttentionPlanShape& shape, StateBlock& state);

// No item has more than one row, as where all sequences generate.
bool has_single_rows(const AttentionList& list);

}  // namespace serval
