#include "engine/runtime/options.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "models/model.h"
#include "models/pooling.h"
#include "models/tokenizer/chat_template.h"

namespace serval {
namespace {

template <typename T>
void require_range(const char* field, T found, T least, T most) {
  // The negated form would accept NaN; this form rejects it.
  if (found >= least && found <= most) return;
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}; limit: {} to {}", field, found, least, most));
}

void require_one_of(const char* field, const std::string& found, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), found) != choices.end()) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: '{}'; expected one of {}", field, found, fmt::join(choices, ", ")));
}

struct WeightFormatName {
  std::string_view name;
  DType dtype;
};
constexpr const char* kStoredFormat = "auto";
constexpr WeightFormatName kWeightFormats[] = {{"bf16", DType::kBF16},       {"fp8", DType::kE4M3},
                                               {"int4", DType::kInt4G128},   {"int4:32", DType::kInt4G32},
                                               {"int4:64", DType::kInt4G64}, {"int4:128", DType::kInt4G128}};

constexpr const char* k16Bit = "16bit";
constexpr const char* k8Bit = "8bit";

struct SpeculationName {
  std::string_view name;
  Speculation::Method method;
};
constexpr SpeculationName kSpeculationNames[] = {{"none", Speculation::Method::kNone},
                                                 {"ngram", Speculation::Method::kNgram},
                                                 {"model", Speculation::Method::kModel}};

template <NamedEnum E>
std::vector<std::string> names_of() {
  const auto names = enumerator_names<E>();
  return {names.begin(), names.end()};
}

// Options for compiling are refused for a program that is compiled already.
void check_program_options(const EngineOptions& options) {
  const auto refuse = [&](const char* field) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} is compiled already", field, options.program));
  };
  if (options.context != 0) refuse("context");
  if (options.kv_cache_memory > 0 || options.kv_cache_share > 0) refuse("kv_cache_memory");
  if (options.batch_invariant) refuse("batch_invariant");
  if (options.sms != 0) refuse("sms");
  if (!options.policy.empty()) refuse("policy");
  if (options.global_queue) refuse("global_queue");
  if (backend_kind(options) == BackendKind::kTorch)
    throw Error(ErrorKind::kUsage, "program: backend torch does not run program files; device and host do");
}

void check_gpus(const EngineOptions& options) {
  const size_t count = options.gpus.size();
  if (count <= 1) return;
  if (count > kMaxDevices || !std::has_single_bit(count))
    throw Error(ErrorKind::kUsage, fmt::format("gpus: {}; expected 1, 2, 4 or 8", count));
  if (options.global_queue)
    throw Error(ErrorKind::kUsage, "global_queue: programs of several GPUs have a queue for each SM");
  if (backend_kind(options) == BackendKind::kTorch)
    throw Error(ErrorKind::kUsage, fmt::format("gpus: {}; backend torch takes 1", count));
}

std::optional<bool> asked_e4m3_inputs(const std::string& name) {
  if (name.empty() || name == kStoredFormat) return std::nullopt;
  require_one_of("activations", name, activation_width_names());
  return name == k8Bit;
}

// The first option that asks for weights in codes, such as "weights: fp8"; empty if none does.
std::string option_of_codes(const EngineOptions& options) {
  const AskedFormats asked = asked_formats(options);
  if (asked.layers && has_codes(*asked.layers)) return "weights: " + options.weights;
  if (asked.lm_head && has_codes(*asked.lm_head)) return "lm_head: " + options.lm_head;
  return "";
}

void check_weight_formats(const EngineOptions& options) {
  const std::string named = option_of_codes(options);
  if (named.empty()) return;
  if (backend_kind(options) == BackendKind::kTorch)
    throw Error(ErrorKind::kUsage, named + " runs on backends device and host; torch has bf16");
  if (options.gpus.size() > 1)
    throw Error(ErrorKind::kUsage, fmt::format("{} runs on 1 GPU; gpus: {}", named, options.gpus.size()));
}

void check_activations(const EngineOptions& options) {
  if (!asked_formats(options).e4m3_inputs.value_or(false)) return;
  const auto refuse = [](const std::string& reason) {
    throw Error(ErrorKind::kUsage, "activations: 8bit: " + reason);
  };
  if (options.batch_invariant) refuse("with batch_invariant, passes of all sizes compute alike, in 16 bits");
  if (!options.program.empty()) refuse(options.program + " is compiled already");
  const BackendKind kind = backend_kind(options);
  if (kind == BackendKind::kHost || kind == BackendKind::kTorch)
    refuse(fmt::format("needs a GPU; backend: {}", name_of(kind)));
}

void check_speculation(const Speculation& speculation) {
  const bool by_model = speculation.method == Speculation::Method::kModel;
  if (by_model && speculation.model.empty())
    throw Error(ErrorKind::kUsage,
                "speculation: model needs a draft model (model_draft, --model-draft MODEL)");
  if (!by_model && !speculation.model.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("model_draft: {}; it is for speculation by a model, not {}",
                                               speculation.model, speculation_name(speculation.method)));
  }
  require_range("draft_max", speculation.draft_max, 1, static_cast<int>(kMaxDrafts));
  require_range("draft_min", speculation.draft_min, 1, speculation.draft_max);
  require_range("ngram_max", speculation.ngram_max, 1, static_cast<int>(kMaxNgram));
  require_range("ngram_min", speculation.ngram_min, 1, speculation.ngram_max);
  require_range("draft_p_min", speculation.draft_p_min, 0.0F, 1.0F);
  if (speculation.accept_rate >= 0) require_range("accept_rate", speculation.accept_rate, 0.0, 1.0);
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names = names_of<Policy>();
  names.emplace_back(kBestPolicy);
  return names;
}

std::vector<std::string> weight_format_names() {
  std::vector<std::string> names = {kStoredFormat};
  for (const auto& [name, dtype] : kWeightFormats) names.emplace_back(name);
  return names;
}

std::vector<std::string> activation_width_names() {
  return {kStoredFormat, k16Bit, k8Bit};
}

AskedFormats asked_formats(const EngineOptions& options) {
  const auto named = [](const char* field, const std::string& name) -> std::optional<DType> {
    if (name.empty() || name == kStoredFormat) return std::nullopt;
    require_one_of(field, name, weight_format_names());
    return std::ranges::find(kWeightFormats, name, &WeightFormatName::name)->dtype;
  };
  return {.layers = named("weights", options.weights),
          .lm_head = named("lm_head", options.lm_head),
          .e4m3_inputs = asked_e4m3_inputs(options.activations)};
}

std::vector<std::string> speculation_names() {
  std::vector<std::string> names;
  for (const auto& [name, method] : kSpeculationNames) names.emplace_back(name);
  return names;
}

std::string speculation_name(Speculation::Method method) {
  return std::string(std::ranges::find(kSpeculationNames, method, &SpeculationName::method)->name);
}

Speculation::Method speculation_named(const std::string& name) {
  require_one_of("speculation", name, speculation_names());
  return std::ranges::find(kSpeculationNames, name, &SpeculationName::name)->method;
}

DraftRule draft_rule(const Speculation& speculation) {
  if (speculation.method == Speculation::Method::kNone) return {};
  const bool by_ngram = speculation.method == Speculation::Method::kNgram;
  return {.most = static_cast<uint32_t>(speculation.draft_max),
          .least = static_cast<uint32_t>(speculation.draft_min),
          .ngram_min = by_ngram ? static_cast<uint32_t>(speculation.ngram_min) : 0,
          .ngram_max = by_ngram ? static_cast<uint32_t>(speculation.ngram_max) : 0,
          .accept_rate = static_cast<float>(speculation.accept_rate)};
}

std::vector<std::string> backend_names() {
  return names_of<BackendKind>();
}

void check_options(const EngineOptions& options) {
  require_range("context", options.context, 0, ConfigLimits::kMaxPosition);
  require_range("max_sequences", options.max_sequences, 1, OptionLimits::kMaxSequences);
  require_range("max_batch_tokens", options.max_batch_tokens, 0, OptionLimits::kMaxBatchTokens);
  require_range("kv_cache_share", options.kv_cache_share, 0.0, 1.0);
  if (options.kv_cache_memory > 0 && options.kv_cache_share > 0)
    throw Error(ErrorKind::kUsage, "kv_cache_memory and kv_cache_share: set either, not both");
  require_range("threads", options.threads, 0, OptionLimits::kMaxThreads);
  require_range("sms", options.sms, 0, OptionLimits::kMaxSms);
  require_range("fault_at_launch", options.fault_at_launch, 0, INT_MAX);
  require_range("trace_tokens", options.trace_tokens, 0, OptionLimits::kMaxTraceTokens);
  if (!(options.stall_timeout_s > 0)) {
    throw Error(ErrorKind::kUsage, fmt::format("stall_timeout_s: {}; limit: more than 0, up to {}",
                                               options.stall_timeout_s, OptionLimits::kMaxStallTimeoutS));
  }
  require_range("stall_timeout_s", options.stall_timeout_s, 0.0, OptionLimits::kMaxStallTimeoutS);
  require_one_of("backend", options.backend, backend_names());
  check_gpus(options);
  const BackendKind backend = backend_kind(options);
  if (options.interleaving && backend != BackendKind::kAuto && backend != BackendKind::kHost) {
    throw Error(ErrorKind::kUsage,
                fmt::format("interleaving: {}; only backend host has interleavings", *options.interleaving));
  }
  if (options.checked && backend != BackendKind::kAuto && backend != BackendKind::kHost)
    throw Error(ErrorKind::kUsage,
                fmt::format("checked: backend {}; only backend host checks", options.backend));
  check_weight_formats(options);
  check_activations(options);
  check_speculation(options.speculation);
  if (!options.pooling.empty()) require_one_of("pooling", options.pooling, names_of<Pooling>());
  if (!options.program.empty()) check_program_options(options);
  if (!options.policy.empty()) require_one_of("policy", options.policy, policy_names());
  if (!options.chat_template.empty() && !ChatTemplate::exists(options.chat_template)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("chat_template: '{}'; expected one of {}, or a file", options.chat_template,
                            fmt::join(ChatTemplate::names(), ", ")));
  }
}

void check_embeddings(const EngineOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorKind::kUsage, "embeddings: " + what); };
  if (backend_kind(options) == BackendKind::kTorch)
    refuse("computed by backends device and host; found torch");
  if (options.gpus.size() > 1) refuse(fmt::format("supported on 1 GPU; gpus: {}", options.gpus.size()));
  const std::string codes = option_of_codes(options);
  if (!codes.empty()) refuse("computed with weights in bf16; found " + codes);
}

int context_of(const EngineOptions& options, int model_max_position) {
  const int most = model_max_position;
  if (options.context == 0) return std::min(most, OptionLimits::kDefaultContext);
  if (options.context >= OptionLimits::kMinContext && options.context <= most) return options.context;
  throw Error(ErrorKind::kUsage, fmt::format("context: {}; limit: {} to {} (the model's maximum)",
                                             options.context, OptionLimits::kMinContext, most));
}

BackendKind backend_kind(const EngineOptions& options) {
  return enumerator_named<BackendKind>(options.backend).value();
}

ScheduleOptions schedule_options(const EngineOptions& options) {
  return {.policy = enumerator_named<Policy>(options.policy),
          .simulate = options.policy == kBestPolicy,
          .queue_kind = options.global_queue ? QueueKind::kGlobal : QueueKind::kPerSm,
          .pass = {}};
}

BackendOptions backend_options(const EngineOptions& options, int context) {
  return {.limits = {.context = static_cast<uint32_t>(context),
                     .sequences = static_cast<uint32_t>(options.max_sequences),
                     .rows = static_cast<uint32_t>(options.max_batch_tokens),
                     .batch_invariant = options.batch_invariant,
                     .ranks = ranks_of(options)},
          .schedule = schedule_options(options),
          .programs = options.programs_in_background ? CompileTime::kInBackground : CompileTime::kAtOnce,
          .sms = static_cast<uint32_t>(options.sms),
          .threads = static_cast<uint32_t>(options.threads),
          .stall_timeout_s = options.stall_timeout_s,
          .interleaving = options.interleaving,
          .checked = options.checked,
          .gpus = gpus_of(options)};
}

std::vector<int> gpus_of(const EngineOptions& options) {
  return options.gpus.empty() ? std::vector{0} : options.gpus;
}

uint32_t ranks_of(const EngineOptions& options) {
  return std::max(1U, static_cast<uint32_t>(options.gpus.size()));
}

}  // namespace serval
