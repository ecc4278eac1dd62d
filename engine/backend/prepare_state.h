// Preparation of the state before a launch, common to all backends.
#pragma once

#include <cstdint>
#include <optional>

#include "instructions/planned_attention/plan.h"
#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Sets the control of a launch of `passes` passes, plans attention if the program has `attention`
// (attention_plan_shape()), and checks the state. Throws as check_state().
void prepare_state(const Program& program, const std::optional<AttentionPlanShape>& attention,
                   uint32_t passes, StateBlock& state);

}  // namespace serval
