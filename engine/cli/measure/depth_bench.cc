#include "engine/cli/measure/depth_bench.h"

#include <optional>

#include "engine/cli/flags/common_options.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/measure/bench_result.h"
#include "engine/cli/measure/pass_timer.h"
#include "engine/cli/measure/result_report.h"
#include "engine/runtime/token_trace.h"
#include "engine/torch/oracle.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

// Returns no samples if a signal ended the test.
std::vector<PassTimes> measure(PassTimer& timer, const DepthTest& test, const DepthBench& bench) {
  ProgressBar bar(bench.progress);
  const DeferScope between_runs;
  std::vector<PassTimes> samples;
  for (int r = 0; r <= bench.repetitions; ++r) {
    bar.update(test.name(), static_cast<uint64_t>(r), static_cast<uint64_t>(bench.repetitions) + 1,
               ProgressBar::Measure::kSteps);
    const PassTimes times = timer.run(test);
    if (pending_signal() != 0) return {};
    if (r > 0) samples.push_back(times);  // the first run warms up
  }
  return samples;
}

// LibTorch's own decoding step, on the same weights.
class TorchTimer {
 public:
  TorchTimer(LoadedModel& model, bool wanted) {
    if (!wanted) return;
    constexpr int64_t kNoCells = 1;  // a replay has its own cache
    oracle_.emplace(*model.source.model, model.weights.on_host(),
                    OracleOptions{OracleDtype::kBf16, OracleDevice::kCuda, kNoCells, 0});
  }

  std::optional<double> us_per_pass(const DepthTest& test) {
    if (!oracle_ || test.prompt) return std::nullopt;
    return oracle_->time_replay(test.batch, test.depth + test.tokens / 2, test.tokens);
  }

 private:
  std::optional<Oracle> oracle_;
};

}  // namespace

int run_depth_bench(const DepthBench& bench) {
  if (bench.compare_torch) load_torch_plugin();
  LoadedModel model = load_model(bench.engine, bench.progress);
  const BenchSubject subject{*model.source.model, *model.backend, model.backend->stream_limit_gb_per_s(),
                             bench.engine.gpus, bench.launch_passes};
  TorchTimer torch(model, bench.compare_torch);
  // The cost of recording is part of the time that is measured.
  if (bench.trace_tokens > 0) keep_last_tokens(*model.backend, static_cast<uint32_t>(bench.trace_tokens));
  PassTimer timer(*model.backend, static_cast<uint32_t>(bench.launch_passes));
  ResultReport report(bench.format, bench.record_file, {markdown_head(), markdown_row});
  report.begin();
  for (const DepthTest& test : bench.tests) {
    const std::vector<PassTimes> samples = measure(timer, test, bench);
    if (samples.empty()) break;
    report.add(bench_result(subject, test, {samples, torch.us_per_pass(test)}));
  }
  report.end();
  const int signal = pending_signal();
  return signal == 0 ? 0 : kSignalExitBase + signal;
}

}  // namespace serval::cli
