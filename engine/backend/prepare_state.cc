#include "engine/backend/prepare_state.h"

#include "instructions/planned_attention/plan_launch.h"
#include "vm/state/check.h"

namespace serval {

void prepare_state(const Program& program, const std::optional<AttentionPlanShape>& attention,
                   uint32_t passes, StateBlock& state) {
  state.control = {
      .passes_done = 0, .passes_wanted = passes, .last_pass = kKeepRunning, .stopped_by_host = 0};
  if (attention) plan_launch(*attention, state);
  check_state(program, state);
}

}  // namespace serval
