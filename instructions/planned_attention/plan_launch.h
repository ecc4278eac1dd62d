// The plan of attention for a program's launch.
#pragma once

#include <optional>

#include "instructions/planned_attention/plan.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// What the program's attention is planned for; none if it has no planned attention.
std::optional<AttentionPlanShape> attention_plan_shape(const Program& program);

// Writes the state's list for the launch that the state describes: rows, slots and passes_wanted are set.
// Does nothing for programs without planned attention. The state has at least the program's rows, and may be
// one that check_state() refuses.
void plan_launch(const Program& program, StateBlock& state);

}  // namespace serval
