// Engine::load: makes a running engine from options.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "fmt/format.h"

#include "engine/core/sampling_parameters.h"
#include "engine/runtime/draft_model_source.h"
#include "engine/runtime/engine_impl.h"
#include "engine/runtime/load_model.h"
#include "engine/runtime/options.h"
#include "engine/runtime/text_model.h"
#include "engine/runtime/token_trace.h"
#include "serval/engine.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

using Clock = std::chrono::steady_clock;

// A draw from the model's own distribution: nothing is cut off, and nothing is made less likely.
constexpr SamplingParams kNeutral = {
    .temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repetition_penalty = 1, .repeat_last_n = -1};

SamplingParams overlaid(SamplingParams sampling, const GenerationDefaults& recommended) {
  for (const SamplingParameter& parameter : sampling_parameters()) {
    const auto found = recommended.find(parameter.range.name);
    if (found != recommended.end()) parameter.set(sampling, found->second);
  }
  return sampling;
}

void describe_model(const Model& model, ModelInfo& info) {
  info.name = model.name;
  info.hidden_size = model.hidden_size;
  info.intermediate_size = model.intermediate_size;
  info.num_layers = model.num_layers;
  info.num_heads = model.num_heads;
  info.num_kv_heads = model.num_kv_heads;
  info.head_dim = model.head_dim;
  info.vocab_size = model.vocab_size;
  info.num_parameters = model.num_parameters();
  info.weight_bytes_per_token = model.weight_bytes_per_token();
  info.kv_bytes_per_token = model.kv_bytes_per_token();
  info.default_sampling = overlaid(SamplingParams(), model.generation);
  info.model_sampling = overlaid(kNeutral, model.generation);
}

void describe_program(const Backend& backend, ModelInfo& info) {
  const Program& program = backend.program();
  info.backend = backend.name();
  info.context = static_cast<int>(program.limits.max_context);
  info.gpus = static_cast<int>(program.num_devices);
  info.sms = static_cast<int>(program.num_sms());
  info.kv_cache_tokens = int64_t{program.limits.kv_blocks} * kKvBlockTokens;
  info.instructions = static_cast<int64_t>(program.instructions.size());
  const auto policy = program.metadata.find("policy");
  if (policy != program.metadata.end()) info.policy = policy->second;
}

void check_drafts(const Speculation& speculation, const Backend& backend) {
  if (speculation.method == Speculation::Method::kNone) return;
  if (backend.draft_rows() > 0) return;
  throw Error(ErrorKind::kUsage, fmt::format("speculation: {}: backend {} makes no drafts",
                                             speculation_name(speculation.method), backend.name()));
}

// Random hash seed: without knowing it, it is hard to construct collisions of block chains.
PassLoopOptions loop_options(const EngineOptions& options, Backend& backend) {
  const StateLimits& limits = backend.limits();
  std::random_device random;
  return {.max_sequences =
              std::min({static_cast<uint32_t>(options.max_sequences), limits.rows, limits.sequences}),
          .hash_seed = uint64_t{random()} << 32 | random(),
          .fault_at_launch = static_cast<uint64_t>(options.fault_at_launch),
          .drafts = draft_rule(options.speculation),
          .draft_p_min = options.speculation.draft_p_min};
}

bool has_draft_model(const EngineOptions& options) {
  return options.speculation.method == Speculation::Method::kModel;
}

// Opens the draft model and compares it with the target, before any weights are read.
ModelSource open_draft_model(const EngineOptions& options, const Model& target, const TextModel& text) {
  ModelSource source = open_model(draft_options(options));
  const TextModel draft_text = load_text_model(source, "", options.random_weights.has_value());
  check_same_vocabulary(*source.model, *draft_text.codec, target, *text.codec);
  return source;
}

void add_draft_model(EngineParts& parts, const EngineOptions& options, ModelSource source) {
  parts.info.draft_model = source.model->name;
  LoadedDraftModel draft = load_draft_model(options, std::move(source), *parts.backend);
  parts.info.draft_weight_bytes = static_cast<int64_t>(draft.weight_bytes);
  parts.info.draft_kv_cache_bytes = static_cast<int64_t>(draft.kv_cache_bytes);
  parts.draft_backend = std::move(draft.backend);
  parts.loop.draft_model = parts.draft_backend.get();
}

}  // namespace

Engine Engine::load(const EngineOptions& options) {
  const Clock::time_point start = Clock::now();
  ModelSource source = open_model(options);
  EngineParts parts;
  parts.text = load_text_model(source, options.chat_template, options.random_weights.has_value());
  std::optional<ModelSource> draft;
  if (has_draft_model(options)) draft = open_draft_model(options, *source.model, parts.text);
  LoadedModel model = load_model(options, std::move(source), draft ? draft->model.get() : nullptr);
  parts.backend = std::move(model.backend);
  parts.info.backend_notice = std::move(model.notice);
  parts.model = model.source.model;
  parts.pooling = model.source.pooling;
  if (parts.pooling) {
    parts.info.pooling = name_of(parts.pooling->pooling);
    parts.info.normalizes = parts.pooling->normalize;
  }
  parts.not_finite = options.allow_nonfinite ? NotFinite::kLoaded : NotFinite::kRefused;
  describe_model(*parts.model, parts.info);
  describe_program(*parts.backend, parts.info);
  parts.info.chat_template = parts.text.chat_template;
  parts.info.tool_parser = name_of(parts.text.formats.tools);
  parts.info.reasoning_parser = name_of(parts.text.formats.reasoning);
  parts.info.template_writes_tools = parts.text.formats.writes_tools;
  parts.info.chat_template_text = parts.text.chat_template_text;
  parts.info.bos_token = parts.text.bos_token;
  parts.info.eos_token = parts.text.eos_token;
  parts.trace_tokens = static_cast<uint32_t>(options.trace_tokens);
  if (parts.trace_tokens > 0) keep_last_tokens(*parts.backend, parts.trace_tokens);
  check_drafts(options.speculation, *parts.backend);
  parts.loop = loop_options(options, *parts.backend);
  if (draft) add_draft_model(parts, options, std::move(*draft));
  parts.info.max_sequences = static_cast<int>(parts.loop.max_sequences);
  parts.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return Impl::make(std::move(parts));
}

}  // namespace serval
