// EngineOptions, checked.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/include/serval/engine.h"
#include "vm/machine.h"
#include "vm/state/limits.h"
#include "vm/state/output.h"

namespace serval {

struct OptionLimits {
  static constexpr int kDefaultContext = 4096;  // tokens, where the model allows as many
  static constexpr int kMinContext = 2;         // one token of prompt, one new one
  static constexpr int kMaxThreads = 1024;
  static constexpr int kMaxSms = static_cast<int>(serval::kMaxSms);
  static constexpr int kMaxSequences = static_cast<int>(kLargestSequences);
  static constexpr int kMaxBatchTokens = static_cast<int>(kLargestRows);
  static constexpr int kMaxTraceTokens = static_cast<int>(kMostLaunchPasses);
  static constexpr double kMaxStallTimeoutS = 86400;
};

// EngineOptions::policy where the simulator is to choose.
inline constexpr const char* kBestPolicy = "best";
// The names that options may have, in the order in which help texts list them.
std::vector<std::string> policy_names();
std::vector<std::string> backend_names();

// What does not depend on the model. Throws Error(kUsage) with one line: the field, what was found, the
// limit.
void check_options(const EngineOptions& options);

// Tokens a sequence may hold. Throws Error(kUsage) where more are asked for than the model was made for.
int context_of(const EngineOptions& options, int model_max_position);

// The checked options, as backends take them; `context` as context_of() gives it.
BackendKind backend_kind(const EngineOptions& options);
ScheduleOptions schedule_options(const EngineOptions& options);
BackendOptions backend_options(const EngineOptions& options, int context);
// GPUs that share the model: CUDA's index of each rank's, and how many.
std::vector<int> gpus_of(const EngineOptions& options);
uint32_t ranks_of(const EngineOptions& options);

}  // namespace serval
