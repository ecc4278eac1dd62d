// The plan of attention for a program's launch.
#pragma once

#include <optional>

#include "instructions/planned_attention/plan.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// The shape of the program's planned attention; none if it has none. Searches the program: call it once a
// program, not once a launch.
std::optional<AttentionPlanShape> attention_plan_shape(const Program& program);

// Writes the state's list for the launch that the state describes; rows, slots and passes_wanted must be set.
// The state has at least the program's rows; check_state() may still refuse it.
void plan_launch(const AttentionPlanShape& shape, StateBlock& state);

// True if no item has more than one row, as when all sequences generate.
bool has_single_rows(const AttentionList& list);

}  // namespace serval
