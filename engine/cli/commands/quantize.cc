// serval quantize: writes a model with weights of 8 or 4 bits, as a directory that other engines load, too.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/flags/flags.h"
#include "engine/cli/input/signals.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "engine/cli/output/progress.h"
#include "engine/runtime/load_model.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "models/quantise_model.h"
#include "vm/base/error.h"

namespace serval::cli {
namespace {

constexpr const char* kExamples =
    "  serval quantize -o stories-fp8\n"
    "  serval quantize -m path/to/Llama-3.2-1B -o path/to/Llama-3.2-1B-int4 --weights int4 --lm-head fp8\n";
constexpr double kGigabyte = 1e9;

struct Flags {
  EngineOptions engine = {.weights = "fp8", .lm_head = "bf16", .embeddings = false};
  std::string target;
  QuantiseOptions quantise;
  OutputFlags output;

  void declare(FlagSet& flags);
};

// Those that name a type, unlike "auto".
std::vector<std::string> type_names() {
  std::vector<std::string> names = weight_format_names();
  names.erase(names.begin());
  return names;
}

int64_t parse_shard_size(const FlagValue& value) {
  const MemorySize size = parse_memory_size(value);
  if (size.share > 0 || size.bytes == 0 || size.bytes > INT64_MAX)
    reject(value, "is not a number of bytes above 0");
  return static_cast<int64_t>(size.bytes);
}

void Flags::declare(FlagSet& flags) {
  declare_model_name(flags, engine.model);
  flags.value("--random-weights", "SEED", "weights made from SEED instead of the directory's",
              [this](const FlagValue& v) { engine.random_weights = parse_unsigned(v, UINT64_MAX); });
  flags.toggle("--allow-nonfinite", "take weights that are NaN or infinite, or too large for bf16",
               engine.allow_nonfinite);
  flags.group("Result");
  flags.value("-o,--output", "DIRECTORY", "where to write; it must not exist, or be empty. Required",
              [this](const FlagValue& v) { target = parse_text(v); });
  const auto type = [&flags](const char* name, const char* of, std::string& into) {
    flags.value(name, "TYPE",
                fmt::format("type of {}: {}. Default: {}", of, fmt::join(type_names(), ", "), into),
                [&into](const FlagValue& v) { into = parse_choice(v, type_names()); });
  };
  type("--weights", "the layers' matrices", engine.weights);
  type("--lm-head", "the LM head", engine.lm_head);
  declare_activations(flags, engine);
  flags.value("--shard-size", "SIZE",
              "bytes of a file at most, with the suffix K, M or G for powers of 1024. Default: 5,000,000,000",
              [this](const FlagValue& v) { quantise.shard_bytes = parse_shard_size(v); });
  output.declare(flags, "print what was written as JSON");
}

// Thrown by the progress callback to end the work.
struct Interrupted {};

QuantisedFiles quantise(const Flags& flags) {
  if (flags.engine.weights == "bf16" && flags.engine.lm_head == "bf16")
    throw Error(ErrorKind::kUsage, "--weights and --lm-head: found bf16 for both; one must be quantised");
  ModelSource source = find_model(flags.engine);
  if (!source.files)
    throw Error(ErrorKind::kRuntime,
                fmt::format("model {}: a preset has no weights; -m names a directory", source.model->name));
  const Weights weights(flags.engine, source);
  ProgressBar bar(flags.output.progress);
  QuantiseOptions options = flags.quantise;
  options.progress = [&](int64_t done, int64_t total) {
    if (pending_signal() != 0) throw Interrupted();
    bar.update("quantising", static_cast<uint64_t>(done), static_cast<uint64_t>(total),
               ProgressBar::Measure::kBytes);
  };
  return quantise_model(source.files->path(), *source.model, weights.source(), flags.target, options);
}

int report(const QuantisedFiles& written, bool json) {
  const std::string path = written.path.string();
  if (json) {
    write_stdout(pretty({{"directory", path}, {"bytes", written.bytes}, {"files", written.files}}));
  } else {
    write_stdout(fmt::format("{}: {:.2f} GB of weights in {}\n", path,
                             static_cast<double>(written.bytes) / kGigabyte, counted(written.files, "file")));
  }
  return 0;
}

}  // namespace

int run_quantize(const Arguments& arguments) {
  Flags flags;
  FlagSet set(
      "quantize",
      "Writes a model with weights of 8 or 4 bits, as a directory that transformers and vLLM load, too.",
      "-m MODEL -o DIRECTORY [FLAGS]");
  flags.declare(set);
  set.examples(kExamples);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  if (flags.target.empty()) throw Error(ErrorKind::kUsage, "-o: required" + set.see_help());
  const DeferScope defer;
  try {
    return report(quantise(flags), flags.output.json);
  } catch (const Interrupted&) {
    return kSignalExitBase + pending_signal();
  }
}

}  // namespace serval::cli
