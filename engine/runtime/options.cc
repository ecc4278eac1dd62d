#include "engine/runtime/options.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "engine/backend/best_policy.h"
#include "models/checkpoint/config.h"
#include "vm/state.h"

namespace serval {
namespace {

template <typename T>
void require_range(const char* field, T found, T least, T most) {
  // Written so that a NaN is outside.
  if (found >= least && found <= most) return;
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}; limit: {} to {}", field, found, least, most));
}

void require_one_of(const char* field, const std::string& found,
                    std::initializer_list<std::string_view> choices) {
  if (std::find(choices.begin(), choices.end(), found) != choices.end()) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: '{}'; limit: one of {}", field, found, fmt::join(choices, ", ")));
}

}  // namespace

void check_options(const EngineOptions& options) {
  require_range("context", options.context, 0, ConfigLimits::kMaxPosition);
  require_range("max_sequences", options.max_sequences, 1, kMaxBatchSequences);
  require_range("threads", options.threads, 0, OptionLimits::kMaxThreads);
  require_range("sms", options.sms, 0, OptionLimits::kMaxSms);
  require_range("trace_tokens", options.trace_tokens, 0, kMaxLaunchPasses);
  if (!(options.stall_timeout_s > 0)) {
    throw Error(ErrorKind::kUsage, fmt::format("stall_timeout_s: {}; limit: more than 0, up to {}",
                                               options.stall_timeout_s, OptionLimits::kMaxStallTimeoutS));
  }
  require_range("stall_timeout_s", options.stall_timeout_s, 0.0, OptionLimits::kMaxStallTimeoutS);
  require_one_of("backend", options.backend, {"auto", "device", "host", "torch"});
  if (options.interleaving && options.backend != "auto" && options.backend != "host") {
    throw Error(ErrorKind::kUsage,
                fmt::format("interleaving: {}; limit: backend host only", *options.interleaving));
  }
  if (!options.policy.empty()) {
    require_one_of("policy", options.policy, {"round-robin", "zig-zag", "wave", "list", kBestPolicy});
  }
  if (!options.chat_template.empty())
    require_one_of("chat_template", options.chat_template, {"llama3", "chatml"});
}

int context_of(const EngineOptions& options, int model_max_position) {
  const int most = model_max_position;
  if (options.context == 0) return std::min(most, OptionLimits::kDefaultContext);
  if (options.context >= OptionLimits::kMinContext && options.context <= most) return options.context;
  throw Error(ErrorKind::kUsage, fmt::format("context: {}; limit: {} to {} (the model's maximum)",
                                             options.context, OptionLimits::kMinContext, most));
}

}  // namespace serval
