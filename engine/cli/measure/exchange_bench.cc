#include "engine/cli/measure/exchange_bench.h"

#include <set>

#include "fmt/format.h"

#include "engine/backend/device_backend.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/measure/exchange_result.h"
#include "engine/cli/measure/result_report.h"
#include "engine/exchange/exchange_timer.h"
#include "engine/exchange/nccl_process.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

// Call before this process uses a GPU.
NcclResults results_of_nccl(const ExchangeBench& bench) {
  if (std::set(bench.gpus.begin(), bench.gpus.end()).size() < bench.gpus.size()) {
    return {.version = {},
            .us = std::vector<std::optional<double>>(bench.bytes.size()),
            .note = "not measured: NCCL needs a GPU for each rank, and --gpus names a GPU several times"};
  }
  ProgressBar bar(bench.progress);
  bar.update("NCCL", 0, 1, ProgressBar::Measure::kSteps);
  return measure_nccl({.gpus = bench.gpus, .bytes = bench.bytes, .repetitions = bench.repetitions});
}

ExchangeResult measure(const ExchangeTimer& timer, uint64_t bytes) {
  const auto rows = static_cast<uint32_t>(bytes / kExchangeRowBytes);
  const ExchangeTime idle = timer.idle(rows), loaded = timer.loaded(rows, idle.us);
  return {.bytes = bytes,
          .idle_us = idle.us,
          .loaded_us = loaded.us,
          .weight_bytes = loaded.weight_bytes,
          .nccl_us = {}};
}

}  // namespace

void check_exchange(const ExchangeBench& bench) {
  if (bench.gpus.size() < 2) {
    throw Error(ErrorKind::kUsage,
                "--gpus: 1 rank; --op all-reduce needs 2, 4 or 8, as --gpus 2, --gpus 0,1 or --gpus 0,0");
  }
}

int run_exchange_bench(const ExchangeBench& bench) {
  check_exchange(bench);
  if (!device_is_built()) check_device(bench.gpus);
  const NcclResults nccl = results_of_nccl(bench);
  const ExchangeTimer timer(bench.gpus, bench.repetitions);
  const ExchangeSubject subject{.gpus = bench.gpus,
                                .gpu_name = timer.gpu_name(),
                                .sms = timer.sms(),
                                .nccl_version = nccl.version,
                                .nccl_note = nccl.note,
                                .repetitions = bench.repetitions};
  ResultReport report(bench.format, bench.record_file, {exchange_markdown_head(), exchange_markdown_row});
  report.begin();
  const DeferScope between_sizes;
  for (size_t i = 0; i < bench.bytes.size() && pending_signal() == 0; ++i) {
    ProgressBar bar(bench.progress);
    bar.update(fmt::format("{} bytes", bench.bytes[i]), i, bench.bytes.size(), ProgressBar::Measure::kSteps);
    ExchangeResult result = measure(timer, bench.bytes[i]);
    result.nccl_us = nccl.us[i];
    report.add(exchange_record(subject, result));
  }
  // Explains the empty cells of the table.
  report.end(nccl.note.empty() ? "" : fmt::format("\nNCCL: {}\n", nccl.note));
  const int signal = pending_signal();
  return signal == 0 ? 0 : kSignalExitBase + signal;
}

}  // namespace serval::cli
