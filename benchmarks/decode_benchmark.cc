// Tokens a second of the host interpreter, backend only: no tokenizer, no engine. The aims on 2 cores: the
// bundled model 100 tokens/s, llama-3.2-1b with random weights 1 token/s and a peak of memory within weights
// + 1 GiB.
#include <benchmark/benchmark.h>
#include <filesystem>
#include <numeric>
#include <sys/resource.h>

#include "engine/backend/host_backend.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

constexpr uint32_t kContext = 1024;
constexpr double kMib = 1 << 20;

struct Model {
  LlamaConfig config;
  std::shared_ptr<const ModelWeights> weights;
};

const Model& bundled() {
  static const Model model = [] {
    const auto dir = std::filesystem::path(SERVAL_SOURCE_DIR) / "assets" / "serval-stories";
    const LlamaConfig config = load_config(dir);
    return Model{config, std::make_shared<const ModelWeights>(ModelWeights::load(dir, config))};
  }();
  return model;
}

const Model& llama_1b() {
  static const Model model = [] {
    const LlamaConfig config = preset_config("llama-3.2-1b");
    return Model{config, std::make_shared<const ModelWeights>(ModelWeights::random(config, 1))};
  }();
  return model;
}

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kKibPerMib = 1024;
  return static_cast<double>(usage.ru_maxrss) / kKibPerMib;
}

std::unique_ptr<Backend> backend_of(const Model& model) {
  BackendOptions options;
  options.limits.context = kContext;
  auto backend = make_host_backend(model.config, model.weights, options);
  std::iota(backend->state().block_table.begin(), backend->state().block_table.end(), 0);
  return backend;
}

// `rows` tokens a pass at positions from `position` on: of one sequence (a prompt) or each of its own
// (decoding).
void fill_rows(StateBlock& state, uint32_t rows, uint32_t position, bool prompt) {
  for (uint32_t r = 0; r < rows; ++r) {
    state.rows[r] = {.active = 1,
                     .wants_logits = prompt ? 0U : 1U,
                     .slot = prompt ? 0 : r,
                     .token = static_cast<int32_t>(r + 1),
                     .position = prompt ? position + r : position};
    state.slots[r].end_position = kContext;
  }
}

// Arguments: rows of a pass, passes of a launch. A launch is an iteration.
void decode(benchmark::State& state, const Model& (*model)()) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  const auto passes = static_cast<uint32_t>(state.range(1));
  const auto backend = backend_of(model());
  for (auto _ : state) {
    fill_rows(backend->state(), rows, 1, false);
    backend->run({.passes = passes}, {});
  }
  const int64_t tokens = state.iterations() * rows * passes;
  state.counters["tokens_per_s"] =
      benchmark::Counter(static_cast<double>(tokens), benchmark::Counter::kIsRate);
  state.counters["weights_MiB"] = static_cast<double>(model().config.weight_bytes()) / kMib;
  state.counters["peak_rss_MiB"] = peak_rss_mib();
}

// Argument: tokens of the prompt.
void prefill(benchmark::State& state, const Model& (*model)()) {
  const auto length = static_cast<uint32_t>(state.range(0));
  const auto backend = backend_of(model());
  for (auto _ : state) {
    for (uint32_t at = 0; at < length; at += kDefaultRows) {
      fill_rows(backend->state(), kDefaultRows, at, true);
      backend->run({.passes = 1}, {});
    }
  }
  state.counters["tokens_per_s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * length), benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(decode, bundled, bundled)
    ->Args({1, 128})
    ->Args({16, 32})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prefill, bundled, bundled)->Arg(256)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, 1b, llama_1b)
    ->Args({1, 4})
    ->Args({16, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prefill, 1b, llama_1b)->Arg(32)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace serval
