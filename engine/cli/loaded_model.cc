#include "engine/cli/loaded_model.h"

#include <chrono>
#include <utility>

#include "fmt/format.h"

#include "engine/cli/log.h"
#include "engine/runtime/options.h"

namespace serval::cli {
namespace {

std::string load_line(const LlamaConfig& config, double seconds) {
  constexpr double kGigabyte = 1e9;
  const double gigabytes = static_cast<double>(config.weight_bytes_bf16()) / kGigabyte;
  return fmt::format("loaded {:.2f} GB of weights in {:.2f} s ({:.1f} GB/s)", gigabytes, seconds,
                     gigabytes / seconds);
}

}  // namespace

LoadedModel load_model(EngineOptions options, ProgressMode progress) {
  ProgressBar bar(progress);
  options.progress = [&bar](const char* stage, uint64_t done, uint64_t total) {
    bar.update(stage, done, total, ProgressBar::Unit::kBytes);
  };
  check_options(options);
  check_backend(options.backend);
  ModelSource source = find_model(options.model);
  check_weights_exist(options, source);
  const auto begin = std::chrono::steady_clock::now();
  Weights weights(options, source);
  ChosenBackend chosen =
      make_backend(options, source.config, weights, context_of(options, source.config.max_position));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  if (!chosen.notice.empty()) log_info(chosen.notice);
  log_info(load_line(source.config, time.count()));
  return {std::move(source), std::move(weights), std::move(chosen.backend)};
}

}  // namespace serval::cli
