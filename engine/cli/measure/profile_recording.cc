#include "engine/cli/measure/profile_recording.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fmt/format.h"

#include "engine/cli/flags/common_options.h"
#include "engine/cli/measure/pass_timer.h"
#include "engine/cli/output/log.h"
#include "engine/compile/gpu_programs.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "engine/runtime/pass_size.h"
#include "engine/runtime/token_trace.h"
#include "instructions/common/cost.h"
#include "profiler/report/savings.h"
#include "profiler/sim/simulate.h"
#include "profiler/trace/trim.h"
#include "serval_commit.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr size_t kMostSavings = 5;

CostContext cost_context(const RecordingOptions& options) {
  return {.rows = static_cast<uint32_t>(options.prompt > 0 ? options.prompt : options.batch),
          .context_tokens = static_cast<uint32_t>(options.depth + options.prompt / 2)};
}

uint32_t passes_of(const RecordingOptions& options) {
  return static_cast<uint32_t>(kWarmUpPasses + options.tokens);
}

DepthTest test_of(const RecordingOptions& options) {
  if (options.prompt > 0)
    return {.prompt = true, .tokens = options.prompt, .batch = 1, .depth = options.depth};
  return {.prompt = false,
          .tokens = static_cast<int>(passes_of(options)),
          .batch = options.batch,
          .depth = std::max(0, options.depth - kWarmUpPasses)};
}

// The simulated launch. Passes have up to `rows` rows.
SimLaunch launch_of(const RecordingOptions& options, uint32_t rows) {
  const DepthTest test = test_of(options);
  if (test.prompt) {
    // Only the last pass of the prompt.
    const auto tokens = static_cast<uint32_t>(test.tokens);
    const uint32_t before = (tokens - 1) / rows * rows;
    return prompt_launch(tokens - before, static_cast<uint32_t>(test.depth) + before);
  }
  return decode_launch(static_cast<uint32_t>(test.batch), static_cast<uint32_t>(test.depth),
                       passes_of(options));
}

std::map<std::string, std::string> metadata_of(const Program& program, const RecordingOptions& options) {
  std::map<std::string, std::string> metadata = program.metadata;
  metadata["context"] = std::to_string(options.depth);
  metadata["sequences"] = std::to_string(options.batch);
  metadata["commit"] = kCommit;
  return metadata;
}

// The context is just long enough for the run unless one was requested.
EngineOptions with_context(const RecordingOptions& options) {
  EngineOptions engine = options.engine;
  if (engine.context == 0) engine.context = test_of(options).context();
  return engine;
}

// Input of the simulator.
struct Simulated {
  ValidProgram program;
  SimLaunch launch;
};

// Limits as on a GPU, except that the simulated one has memory for passes of any size.
ProgramLimits simulated_limits(const EngineOptions& engine, const Model& model) {
  ProgramLimits limits = backend_options(engine, context_of(engine, model.max_position)).limits;
  check_pass_size(engine, limits);
  if (limits.rows == 0)
    limits.rows = gpu_batch_tokens(model, {}, limits, std::numeric_limits<uint64_t>::max());
  return limits;
}

// Compiles for the simulator's GPU. Reads no weights.
Simulated compile_for_simulator(const RecordingOptions& options) {
  const EngineOptions engine = with_context(options);
  check_options(engine);
  const std::shared_ptr<const Model> model = find_model(engine).model;
  Machine machine = h200_machine();
  machine.gb_per_s = options.simulator.gb_per_s;
  if (engine.sms > 0) machine.sms = static_cast<uint32_t>(engine.sms);
  ScheduleOptions schedule = schedule_options(engine);
  schedule.pass = cost_context(options);
  const ProgramLimits limits = simulated_limits(engine, *model);
  SimLaunch launch = launch_of(options, limits.rows);
  const auto rows = static_cast<uint32_t>(launch.rows.size());
  return {compile_gpu_program(*model, machine, limits, schedule, rows, options.prompt > 0),
          std::move(launch)};
}

// Only for generation: a prompt takes the simulator seconds for each change that it tries.
std::vector<Saving> savings_of(const Program& program, const RecordingOptions& options) {
  if (!options.savings || options.prompt > 0) return {};
  return predicted_savings(program, launch_of(options, program.limits.rows), options.simulator, kMostSavings);
}

ProfiledRun simulated(const RecordingOptions& options) {
  const auto [valid, launch] = compile_for_simulator(options);
  const Program& program = *valid;
  std::map<std::string, std::string> metadata = metadata_of(program, options);
  metadata["calibration"] = options.simulator.name;
  Trace trace = simulate(program, launch, options.simulator, std::move(metadata));
  const auto tokens = static_cast<uint32_t>(options.prompt > 0 ? 1 : options.tokens);
  return {last_tokens(std::move(trace), tokens), savings_of(program, options)};
}

std::string text_of(const PassTimes& times) {
  std::string text = fmt::format("{:.1f} us each by the host's clock", times.total_us / times.passes);
  if (times.kernel_us) text += fmt::format(", {:.1f} us by CUDA events", *times.kernel_us / times.passes);
  return text;
}

ProfiledRun recorded(const RecordingOptions& options) {
  LoadedModel model = load_model(with_context(options), options.progress);
  Backend& backend = *model.backend;
  const auto tokens = static_cast<uint32_t>(options.prompt > 0 ? 1 : options.tokens);
  PassTimer timer(backend, passes_of(options));
  backend.record(0);  // throws at once if the backend cannot record
  timer.run(test_of(options));
  keep_last_tokens(backend, tokens, options.detail);
  const PassTimes times = timer.run(test_of(options));
  Trace trace =
      trace_of_last_tokens(backend, tokens, cost_context(options), metadata_of(backend.program(), options));
  log_info(fmt::format("recorded {} passes: {}", times.passes, text_of(times)));
  // The simulator models a GPU.
  const bool host = trace.source == TraceSource::kHost;
  return {std::move(trace), host ? std::vector<Saving>{} : savings_of(backend.program(), options)};
}

}  // namespace

ProfiledRun record_tokens(const RecordingOptions& options) {
  return options.simulate ? simulated(options) : recorded(options);
}

}  // namespace serval::cli
