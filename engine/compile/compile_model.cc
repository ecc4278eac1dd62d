#include "engine/compile/compile_model.h"

#include <algorithm>

#include "engine/compile/best_policy.h"
#include "instructions/kernels.h"
#include "scheduler/compile.h"

namespace serval {
namespace {

bool is_gpu(const Machine& machine) {
  return machine != host_machine(machine.sms);
}

}  // namespace

ValidProgram compile_model(const Model& model, const Machine& machine_in, const ProgramLimits& limits,
                           const ScheduleOptions& schedule) {
  Machine machine = machine_in;
  if (limits.tiles() > 0) machine.pages_per_sm = std::min(machine.pages_per_sm, gemm_ring_pages());
  const GraphOptions graph{.sms = machine.sms,
                           .context = limits.context,
                           .kv_blocks = limits.kv_blocks(),
                           .rows = limits.pass_rows(),
                           .sequences = limits.slots(),
                           .tile_rows = limits.tiles(),
                           .ranks = limits.ranks};
  CompileOptions options{
      .policy = schedule.policy, .queue_kind = schedule.queue_kind, .context = schedule.pass};
  if (schedule.simulate && is_gpu(machine) && limits.ranks == 1)
    options.policy = best_policy(model, machine, limits, schedule);
  return ValidProgram(compile(model.graph(graph), machine, options));
}

}  // namespace serval
