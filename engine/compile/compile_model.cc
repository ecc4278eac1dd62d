#include "engine/compile/compile_model.h"

#include <algorithm>
#include <utility>

#include "engine/compile/best_policy.h"
#include "instructions/kernels.h"
#include "vm/base/error.h"

namespace serval {
namespace {

bool is_gpu(const Machine& machine) {
  return machine != host_machine(machine.sms);
}

// The machine as programs that multiply tiles of rows see it.
Machine machine_of_tiles(Machine machine) {
  // wgmma with operands in shared memory: 790 TFLOP/s on an H200.
  constexpr double kFasterThanVectors = 2;
  if (is_gpu(machine)) machine.sm_gflop_per_s *= kFasterThanVectors;
  machine.pages_per_sm = std::min(machine.pages_per_sm, tile_ring_pages());
  return machine;
}

}  // namespace

CompilePlan plan_program(const Model& model, const Machine& machine_in, const ProgramLimits& limits,
                         const ScheduleOptions& schedule) {
  Machine machine = limits.tiles() > 0 ? machine_of_tiles(machine_in) : machine_in;
  if (limits.is_in_tile_order())
    machine.pages_per_sm = std::min(machine.pages_per_sm, tile_order_ring_pages());
  if (!model.formats.all_bf16())
    machine.pages_per_sm = std::min(machine.pages_per_sm,
                                    ring_pages_of(codes_of({model.formats.layers, model.formats.lm_head})));
  const GraphOptions graph{.sms = machine.sms,
                           .context = limits.context,
                           .kv_blocks = limits.kv_blocks(),
                           .rows = limits.pass_rows(),
                           .sequences = limits.slots(),
                           .tile_rows = limits.tiles(),
                           .tile_order = limits.is_in_tile_order(),
                           .ranks = limits.ranks};
  CompileOptions options{
      .policy = schedule.policy, .queue_kind = schedule.queue_kind, .context = schedule.pass};
  if (schedule.simulate && is_gpu(machine)) options.policy = best_policy(model, machine, limits, schedule);
  return {model.graph(graph), machine, options};
}

ValidProgram compile_plan(const CompilePlan& plan, const std::stop_token& stop) {
  return ValidProgram(compile(plan.graph, plan.machine, plan.options, stop));
}

ValidProgram compile_model(const Model& model, const Machine& machine, const ProgramLimits& limits,
                           const ScheduleOptions& schedule) {
  return compile_plan(plan_program(model, machine, limits, schedule));
}

}  // namespace serval
