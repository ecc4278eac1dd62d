// serval info: facts about the program, this machine and a model. Reads the model's configuration and no
// weights.
#include <fstream>
#include <map>
#include <optional>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/backend/device_backend.h"
#include "engine/cli/commands/commands.h"
#include "engine/cli/flags/common_options.h"
#include "engine/cli/output/json_text.h"
#include "engine/cli/output/output.h"
#include "engine/runtime/draft_model_source.h"
#include "engine/runtime/kv_size.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "engine/runtime/text_model.h"
#include "engine/torch/oracle.h"
#include "models/checkpoint/host_buffer.h"
#include "models/ranks.h"
#include "models/tokenizer/regex.h"
#include "vm/base/version.h"
#include "vm/layout/kv_cache.h"

namespace serval::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kExamples =
    "  serval info\n"
    "  serval info -m llama-3.1-8b --json\n"
    "  serval info -m llama-3.1-70b --gpus 4\n"
    "  serval info --kv-cache-memory 50%\n";

#ifdef NDEBUG
constexpr const char* kBuildType = "release";
#else
constexpr const char* kBuildType = "debug";
#endif

// The values that --backend accepts on this machine.
std::vector<std::string> backends() {
  std::vector<std::string> names = {name_of(BackendKind::kHost)};
  try {
    check_device();
    names.emplace_back(name_of(BackendKind::kDevice));
  } catch (const Error&) {
    // No usable GPU; --backend device reports the reason.
  }
  try {
    (void)load_torch_plugin();
    names.emplace_back(name_of(BackendKind::kTorch));
  } catch (const Error&) {
    // Not installed; --backend torch reports the reason.
  }
  return names;
}

ordered_json program_facts() {
  return {{"version", version()},
          {"compiler", fmt::format("{} ({})", SERVAL_COMPILER, kBuildType)},
          {"unicode", unicode_version()},
          {"backends", backends()}};
}

std::string cpu_name() {
  constexpr std::string_view kField = "model name";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(kField) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int64_t memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
}

ordered_json machine_facts() {
  utsname system = {};
  uname(&system);
  return {{"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"cpu", cpu_name()},
          {"threads", std::thread::hardware_concurrency()},
          {"memory_bytes", memory_bytes()}};
}

// A preset has no tokenizer, and so no template.
std::string chat_template_of(const ModelSource& source) {
  constexpr bool kMayLackTokenizer = true;
  if (!source.files) return "";
  return load_text_model(source, "", kMayLackTokenizer).chat_template;
}

// The free memory of the device that the model would run on.
uint64_t free_memory() {
  try {
    return free_device_memory();
  } catch (const Error&) {
    return available_host_memory();
  }
}

// Bytes of the weights in memory by their types, as {"bf16": 1024}.
ordered_json bytes_by_type(const Model& model) {
  ordered_json bytes = ordered_json::object();
  for (int number = 0; number < kNumDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    int64_t of_type = 0;
    for (const WeightSpec& weight : model.weights()) of_type += weight.dtype == type ? weight.bytes() : 0;
    if (of_type > 0) bytes[std::string(name_of(type))] = of_type;
  }
  return bytes;
}

ordered_json model_facts(const ModelSource& source) {
  const Model& c = *source.model;
  const std::map<std::string, double> parameters = c.parameters();
  const auto rope_theta = parameters.find("rope_theta");
  return {{"name", c.name},
          {"directory", source.files ? source.files->path().string() : ""},
          {"parameters", c.num_parameters()},
          {"weight_format", source.files ? source.files->weight_format() : ""},
          {"weight_bytes", c.weight_bytes()},
          {"weight_bytes_by_type", bytes_by_type(c)},
          {"weight_bytes_per_token", c.weight_bytes_per_token()},
          {"kv_bytes_per_token", c.kv_bytes_per_token()},
          {"kv_tokens_that_fit", kv_tokens_beside_weights(bytes_of_model(c, 1), free_memory())},
          {"layers", c.num_layers},
          {"hidden_size", c.hidden_size},
          {"intermediate_size", c.intermediate_size},
          {"heads", c.num_heads},
          {"kv_heads", c.num_kv_heads},
          {"head_dim", c.head_dim},
          {"vocabulary", c.vocab_size},
          {"max_context", c.max_position},
          {"rope_theta", rope_theta == parameters.end() ? ordered_json() : ordered_json(rope_theta->second)},
          {"tied_embeddings", c.tie_word_embeddings},
          {"chat_template", chat_template_of(source)}};
}

// Memory of an otherwise idle H200.
constexpr uint64_t kH200Bytes = uint64_t{139} << 30;

struct RankMemory {
  std::string gpu;
  uint64_t bytes;
};
// Memory of the requested GPUs if this machine has them, else of its first GPU, else of an H200.
RankMemory memory_of_rank(const std::vector<int>& gpus) {
  try {
    return {"that with the least free memory", free_device_memory(gpus)};
  } catch (const Error&) {
  }
  try {
    return {"this machine's first", free_device_memory()};
  } catch (const Error&) {
    return {"an H200", kH200Bytes};
  }
}

// Each GPU's share of the model.
ordered_json rank_facts(const Model& model, const std::vector<int>& gpus) {
  const auto ranks = static_cast<uint32_t>(gpus.size());
  check_ranks(model, ranks);
  const auto [gpu, memory] = memory_of_rank(gpus);
  const ModelBytes bytes = bytes_of_rank(model, ranks);
  const auto kv_heads = static_cast<uint32_t>(model.num_kv_heads);
  return {{"gpus", ranks},
          {"gpu", gpu},
          {"memory_bytes", memory},
          {"weight_bytes", bytes.weights},
          {"weights_fit", bytes.weights <= memory},
          {"kv_bytes_per_token", bytes.kv_of_token},
          {"kv_tokens_that_fit", kv_tokens_beside_weights(bytes, memory)},
          {"heads", static_cast<uint32_t>(model.num_heads) / ranks},
          {"kv_heads", kv_heads_of_rank(kv_heads, ranks)},
          {"ranks_of_a_kv_head", ranks > kv_heads ? ranks / kv_heads : 1},
          {"intermediate_columns", static_cast<uint32_t>(model.intermediate_size) / ranks},
          {"slice_columns", static_cast<uint32_t>(model.hidden_size) / ranks},
          {"embedding", "by vocabulary"},
          {"lm_head", model.tie_word_embeddings ? "the embedding's rows" : "by vocabulary"}};
}

// What the draft model takes beside the model that it drafts for.
ordered_json draft_facts(const ModelSource& draft, const ModelSource& target, uint32_t ranks) {
  constexpr bool kMayLackTokenizer = true;
  const TextModel text = load_text_model(draft, "", kMayLackTokenizer);
  check_same_vocabulary(*draft.model, *text.codec, *target.model,
                        *load_text_model(target, "", kMayLackTokenizer).codec);
  const ModelBytes bytes = bytes_of_model(*draft.model, ranks);
  const ModelBytes both = bytes_of_model(*target.model, ranks) + bytes;
  return {{"name", draft.model->name},
          {"directory", draft.files ? draft.files->path().string() : ""},
          {"parameters", draft.model->num_parameters()},
          {"weight_bytes", bytes.weights},
          {"kv_bytes_per_token", bytes.kv_of_token},
          {"max_context", draft.model->max_position},
          {"kv_tokens_that_fit", kv_tokens_beside_weights(both, free_memory())}};
}

// Adds the size of the KV cache that the options request in the memory that also holds the weights.
void add_kv_cache(ordered_json& facts, const Model& model, const EngineOptions& options,
                  const ModelBytes& bytes, uint64_t memory) {
  const int context = context_of(options, model.max_position);
  const uint32_t blocks = kv_blocks_of(options, bytes, context, memory);
  if (blocks > 0) facts["kv_cache_tokens"] = uint64_t{blocks} * kKvBlockTokens;
}

std::string or_none(const std::string& fact) {
  return fact.empty() ? "none" : fact;
}

// "  weight_bytes            1234": one line for each fact, under its section's name.
std::string as_text(const ordered_json& facts) {
  std::string out;
  for (const auto& [section, values] : facts.items()) {
    out += section + '\n';
    for (const auto& [key, value] : values.items()) {
      out += fmt::format("  {:<24}{}\n", key,
                         value.is_string() ? or_none(value.get<std::string>()) : value.dump());
    }
  }
  return out;
}

}  // namespace

int run_info(const Arguments& arguments) {
  EngineOptions options;
  OutputFlags output;
  FlagSet set("info", "Prints facts about the program, this machine and a model.", "[FLAGS]");
  declare_model_name(set, options.model);
  declare_draft_model(set, options.speculation);
  declare_weight_formats(set, options);
  declare_gpus(set, options);
  declare_kv_cache_memory(set, options);
  output.declare(set, "print one JSON object");
  set.examples(kExamples);
  if (!set.parse(arguments)) {
    write_stdout(set.help());
    return 0;
  }
  options.embeddings = false;  // the facts are those of the whole model
  const ModelSource source = find_model(options);
  ordered_json facts = {
      {"serval", program_facts()}, {"machine", machine_facts()}, {"model", model_facts(source)}};
  const uint32_t ranks = ranks_of(options);
  std::optional<ModelSource> draft;
  if (!options.speculation.model.empty()) {
    draft = find_model(draft_options(options));
    facts["draft_model"] = draft_facts(*draft, source, ranks);
  }
  const auto with_draft = [&](const auto& bytes_of) {
    const ModelBytes bytes = bytes_of(*source.model, ranks);
    return draft ? bytes + bytes_of(*draft->model, ranks) : bytes;
  };
  if (ranks > 1) {
    ordered_json& rank = facts["rank"] = rank_facts(*source.model, options.gpus);
    add_kv_cache(rank, *source.model, options, with_draft(bytes_of_rank), rank["memory_bytes"]);
  } else {
    add_kv_cache(facts["model"], *source.model, options, with_draft(bytes_of_model), free_memory());
  }
  write_stdout(output.json ? pretty(facts) : as_text(facts));
  return 0;
}

}  // namespace serval::cli
