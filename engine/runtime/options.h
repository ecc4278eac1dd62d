// Checks EngineOptions and converts them for backends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/include/serval/engine.h"
#include "vm/machine.h"
#include "vm/state/limits.h"
#include "vm/state/output.h"
#include "vm/state/slots.h"

namespace serval {

struct OptionLimits {
  static constexpr int kDefaultContext = 4096;  // tokens, if the model supports as many
  static constexpr int kMinContext = 2;         // one prompt token and one new token
  static constexpr int kMaxThreads = 1024;
  static constexpr int kMaxSms = static_cast<int>(serval::kMaxSms);
  static constexpr int kMaxSequences = static_cast<int>(kLargestSequences);
  static constexpr int kMaxBatchTokens = static_cast<int>(kLargestRows);
  static constexpr int kMaxTraceTokens = static_cast<int>(kMostLaunchPasses);
  static constexpr double kMaxStallTimeoutS = 86400;
};

// EngineOptions::policy for the simulator's choice.
inline constexpr const char* kBestPolicy = "best";
// Valid values of options, in the order of the help texts.
std::vector<std::string> policy_names();
// Names of types of weights. The first, "auto", is the default.
std::vector<std::string> weight_format_names();
// Widths of activations. The first, "auto", is the default.
std::vector<std::string> activation_width_names();
// What the options name; nullopt for auto (engine/runtime/weight_formats.h). Throws Error(kUsage).
struct AskedFormats {
  std::optional<DType> layers, lm_head;
  std::optional<bool> e4m3_inputs;
};
AskedFormats asked_formats(const EngineOptions& options);
std::vector<std::string> backend_names();
// Methods of speculation, and the method with a name. Throws Error(kUsage).
std::vector<std::string> speculation_names();
std::string speculation_name(Speculation::Method method);
Speculation::Method speculation_named(const std::string& name);
// The rule of drafts that the checked options name; `most` is 0 without drafts.
DraftRule draft_rule(const Speculation& speculation);

// Checks everything that does not depend on the model. Throws Error(kUsage) with one line: the field, the
// value, the limit.
void check_options(const EngineOptions& options);
// Checks what engines for embeddings do not support. Throws Error(kUsage) likewise.
void check_embeddings(const EngineOptions& options);

// Tokens that a sequence may hold. Throws Error(kUsage) if more are requested than the model supports.
int context_of(const EngineOptions& options, int model_max_position);

// Convert checked options for the backends; `context` is the result of context_of().
BackendKind backend_kind(const EngineOptions& options);
ScheduleOptions schedule_options(const EngineOptions& options);
BackendOptions backend_options(const EngineOptions& options, int context);
// CUDA's index of each rank's GPU, and the number of ranks.
std::vector<int> gpus_of(const EngineOptions& options);
uint32_t ranks_of(const EngineOptions& options);

}  // namespace serval
