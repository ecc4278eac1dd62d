// EngineOptions, checked.
#pragma once

#include "engine/include/serval/engine.h"
#include "vm/machine.h"

namespace serval {

struct OptionLimits {
  static constexpr int kDefaultContext = 4096;  // tokens, where the model allows as many
  static constexpr int kMinContext = 2;         // one token of prompt, one new one
  static constexpr int kMaxThreads = 1024;
  static constexpr int kMaxSms = static_cast<int>(serval::kMaxSms);
  static constexpr double kMaxStallTimeoutS = 86400;
};

// What does not depend on the model. Throws Error(kUsage) with one line: the field, what was found, the
// limit.
void check_options(const EngineOptions& options);

// Tokens a sequence may hold. Throws Error(kUsage) where more are asked for than the model was made for.
int context_of(const EngineOptions& options, int model_max_position);

}  // namespace serval
