// The flags that several commands share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/cli/flags/flags.h"
#include "engine/cli/output/progress.h"
#include "engine/core/sampling_parameters.h"
#include "engine/runtime/load_model.h"
#include "models/model.h"
#include "serval/engine.h"

namespace serval::cli {

// --json, --log-level, --progress.
struct OutputFlags {
  bool json = false;
  ProgressMode progress = ProgressMode::kAuto;

  void declare(FlagSet& flags, const std::string& json_help);
};

inline constexpr int kMaxContext =
    ConfigLimits::kMaxPosition;  // tokens; the model's own limit is checked later

// -m: a directory or a preset's name.
void declare_model_name(FlagSet& flags, std::string& model);
// --weights, --lm-head.
void declare_weight_formats(FlagSet& flags, EngineOptions& options);
void declare_activations(FlagSet& flags, EngineOptions& options);
// -m, --random-weights, --weights, --lm-head, --allow-nonfinite: selects the model, which generates:
// embeddings become false.
void declare_model(FlagSet& flags, EngineOptions& options);
// --pooling, for commands that compute embeddings.
void declare_pooling(FlagSet& flags, EngineOptions& options);
// -c.
void declare_context(FlagSet& flags, EngineOptions& options);
// --gpus.
void declare_gpus(FlagSet& flags, EngineOptions& options);
// --gpus, --sms, --policy, --queue: how it is compiled.
void declare_schedule(FlagSet& flags, EngineOptions& options);
// --threads; `of` completes the help text "threads of …".
void declare_threads(FlagSet& flags, EngineOptions& options, const std::string& of);
// --max-batch-tokens, --batch-invariant.
void declare_batch_tokens(FlagSet& flags, EngineOptions& options);
// --kv-cache-memory.
void declare_kv_cache_memory(FlagSet& flags, EngineOptions& options);
// --max-batch-tokens, --batch-invariant and --kv-cache-memory.
void declare_capacity(FlagSet& flags, EngineOptions& options);
// --max-sequences.
void declare_max_sequences(FlagSet& flags, EngineOptions& options);
// -md: the draft model, which then makes the drafts.
void declare_draft_model(FlagSet& flags, Speculation& speculation);
// -md, --spec and the size of drafts.
void declare_speculation(FlagSet& flags, EngineOptions& options);
// All of these except the capacity and the speculation, and the rest that loading a model needs:
// --chat-template, --backend,
// --interleaving.
void declare_engine(FlagSet& flags, EngineOptions& options);

// Throws Error(kUsage) if one of `flags`, which say how to compile, is given together with a program file.
void check_not_compiled(const FlagSet& set, const std::string& program_file,
                        std::initializer_list<const char*> flags);

// Loads with a progress bar, and reports the progress to `also`. Throws as Engine::load does.
Engine load_engine(EngineOptions options, ProgressMode progress, const ProgressCallback& also = {});
// Loads a model without an engine, for commands that time or record passes themselves. Logs to stderr how
// long it took.
LoadedModel load_model(EngineOptions options, ProgressMode progress);

// -n, -s, --temp and similar. Values that are not given are the model's defaults.
struct SamplingFlags {
  int max_tokens = -1;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  std::vector<LogitBias> logit_bias;
  int min_tokens = 0;
  bool ignore_eos = false;
  bool json_object = false;
  std::string json_schema;
  std::string regex;
  std::vector<std::string> choice;
  std::string grammar;

  void declare(FlagSet& flags);
  // The given sampling parameters, with `defaults` for the others. Without -s every run draws a seed: seed().
  SamplingParams apply(const SamplingParams& defaults) const;
  uint64_t seed() const { return seed_; }
  // A request without its prompt.
  Request request(const SamplingParams& defaults) const;

 private:
  std::vector<std::pair<const SamplingParameter*, double>> given_;
  uint64_t seed_ = random_seed();

  void declare_grammar(FlagSet& flags);
  static uint64_t random_seed();
};

}  // namespace serval::cli
