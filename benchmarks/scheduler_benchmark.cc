// From a model's shape to a program for an H200, and its proof, on one core. The aims: llama-3.2-1b compiles
// within 50 ms and is validated within 1 s; llama-3.1-70b within 1 s and 5 s, and all its programs within 3
// s, on one GPU. Run with --benchmark_repetitions and take the best CPU time on a machine that is shared.
#include <benchmark/benchmark.h>

#include "engine/compile/gpu_programs.h"
#include "models/llama/graph.h"
#include "scheduler/compile.h"
#include "scheduler/periodic_dependencies.h"
#include "scheduler/timing.h"
#include "scheduler/validate.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

Graph graph_of(const char* preset) {
  return build_llama_graph(preset_config(preset), {.sms = h200_machine().sms});
}

void compile_model(benchmark::State& state, const char* preset) {
  Program program;
  for (auto _ : state) program = compile(graph_of(preset), h200_machine(), {});
  state.counters["instructions"] = static_cast<double>(program.instructions.size());
  state.counters["counters"] = static_cast<double>(program.counters.size());
  state.counters["pass_us"] = time_pass(program, {}, false).end_us;
  state.SetLabel(program.metadata.at("policy"));
}

void derive_dependencies_of(benchmark::State& state, const char* preset) {
  const Graph graph = graph_of(preset);
  for (auto _ : state) benchmark::DoNotOptimize(derive_periodic_dependencies(graph));
}

void place_model(benchmark::State& state, const char* preset, Policy policy) {
  const Graph graph = graph_of(preset);
  const Dependencies deps = derive_periodic_dependencies(graph);
  const std::vector<NodeTime> times = node_times(graph, h200_machine(), {});
  Placement placement;
  for (auto _ : state) placement = place(graph, deps, h200_machine(), policy, times);
  state.counters["pass_us"] = makespan_us(deps, placement, h200_machine(), times);
}

void validate_model(benchmark::State& state, const char* preset, QueueKind kind) {
  const Program program =
      compile(graph_of(preset), h200_machine(), {.policy = {}, .queue_kind = kind, .context = {}});
  for (auto _ : state) require_valid(program);
  state.counters["instructions"] = static_cast<double>(program.instructions.size());
}

ProgramLimits limits_of(uint32_t rows, uint32_t ranks = 1) {
  return {.rows = rows, .tile_rows = 256, .ranks = ranks};
}

// Compiled and proven: a program for passes of so many rows.
void program_of_rows(benchmark::State& state, const char* preset) {
  const auto model = find_preset(preset);
  const auto rows = static_cast<uint32_t>(state.range(0));
  for (auto _ : state)
    serval::compile_model(*model, h200_machine(), limits_of(rows), {.pass = {.rows = rows}});
}

// All that an engine compiles when it loads a model for so many GPUs, on all cores.
void programs_of(benchmark::State& state, const char* preset) {
  const auto model = find_preset(preset);
  const auto ranks = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) compile_gpu_programs(*model, h200_machine(), limits_of(2048, ranks), {});
}

BENCHMARK_CAPTURE(compile_model, 1b, "llama-3.2-1b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_model, 8b, "llama-3.1-8b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile_model, 70b, "llama-3.1-70b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(derive_dependencies_of, 1b, "llama-3.2-1b")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_model, 1b_round_robin, "llama-3.2-1b", Policy::kRoundRobin)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_model, 1b_zig_zag, "llama-3.2-1b", Policy::kZigZag)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_model, 1b_wave, "llama-3.2-1b", Policy::kWave)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(place_model, 1b_list, "llama-3.2-1b", Policy::kList)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_model, 1b, "llama-3.2-1b", QueueKind::kPerSm)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_model, 70b, "llama-3.1-70b", QueueKind::kPerSm)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_model, 70b_global, "llama-3.1-70b", QueueKind::kGlobal)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(program_of_rows, 1b, "llama-3.2-1b")
    ->ArgsProduct({{16, 64, 128, 256, 512, 1024, 2048}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(program_of_rows, 70b, "llama-3.1-70b")
    ->ArgsProduct({{16, 64, 128, 256, 512, 1024, 2048}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(programs_of, 1b, "llama-3.2-1b")
    ->ArgsProduct({{1, 8}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(programs_of, 70b, "llama-3.1-70b")
    ->ArgsProduct({{1, 2, 4, 8}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace serval
