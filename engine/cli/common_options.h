// The flags that several commands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/flags.h"
#include "engine/cli/progress.h"
#include "serval/engine.h"

namespace serval::cli {

// --json, --log-level, --progress.
struct OutputFlags {
  bool json = false;
  ProgressMode progress = ProgressMode::kAuto;

  void declare(FlagSet& flags, const std::string& json_help);
};

// -m, --random-weights: which model.
struct ModelFlags {
  std::string model;  // a directory or a preset's name; empty: the bundled model
  std::optional<uint64_t> random_weights;

  void declare(FlagSet& flags);
};

// --sms, --policy, --queue: how it is compiled.
struct ScheduleFlags {
  int sms = 0;         // 0: the machine's own number
  std::string policy;  // empty: what the cost model prefers
  bool global_queue = false;

  void declare(FlagSet& flags);
};

inline constexpr int kMaxContext = 1 << 24;  // tokens; the model's own maximum is checked when it is loaded
inline constexpr int kMaxThreads = 1024;

// -c.
void declare_context(FlagSet& flags, int& context);

// Everything that loading a model needs.
struct EngineFlags {
  ModelFlags model;
  ScheduleFlags schedule;
  int context = 0;
  int threads = 0;
  std::string backend = "auto";
  std::string chat_template;
  std::optional<uint64_t> interleaving;

  void declare(FlagSet& flags);
  EngineOptions options(int max_sequences) const;
};

// Loads with a progress bar. Throws as Engine::load does.
Engine load_engine(EngineOptions options, ProgressMode progress);

// -n, -s, --temp and their like. What is not given is the model's own default.
struct SamplingFlags {
  int max_tokens = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  void declare(FlagSet& flags);
  // Sampling as asked for, where `defaults` fill the gaps. Without -s every run draws a seed of its own:
  // seed().
  SamplingParams apply(const SamplingParams& defaults) const;
  uint64_t seed() const { return seed_; }

 private:
  std::optional<float> temperature_, top_p_, min_p_, repetition_penalty_;
  std::optional<int> top_k_;
  uint64_t seed_ = random_seed();

  static uint64_t random_seed();
};

}  // namespace serval::cli
