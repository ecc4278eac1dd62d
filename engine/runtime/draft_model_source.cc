#include "engine/runtime/draft_model_source.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"

#include "engine/runtime/load_model.h"
#include "engine/runtime/options.h"
#include "models/ranks.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

std::string shown_token(const std::optional<std::string>& bytes) {
  return bytes ? in_quotes(*bytes) : "none";
}

}  // namespace

EngineOptions draft_options(const EngineOptions& options) {
  EngineOptions draft = options;
  draft.model = options.speculation.model;
  draft.speculation = {};
  draft.program.clear();
  draft.weights.clear();
  draft.lm_head.clear();
  draft.activations.clear();
  draft.embeddings = false;
  draft.pooling.clear();
  draft.chat_template.clear();
  draft.trace_tokens = 0;
  draft.fault_at_launch = 0;
  draft.context = 0;  // set once its own limit is known
  draft.kv_cache_memory = 0;
  draft.kv_cache_share = 0;
  return draft;
}

void check_same_vocabulary(const Model& draft, const TextCodec& draft_codec, const Model& target,
                           const TextCodec& target_codec) {
  const auto refuse = [&](const std::string& difference) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("draft model {}: {}; both need the same vocabulary", draft.name, difference));
  };
  if (draft.vocab_size != target.vocab_size) {
    refuse(fmt::format("its vocabulary has {} tokens, and that of {} has {}", draft.vocab_size, target.name,
                       target.vocab_size));
  }
  for (int32_t id = 0; id < target.vocab_size; ++id) {
    const auto ours = draft_codec.token_bytes(id, SpecialTokens::kWritten);
    const auto wanted = target_codec.token_bytes(id, SpecialTokens::kWritten);
    if (ours != wanted) {
      refuse(fmt::format("token {} is {}, and in {} it is {}", id, shown_token(ours), target.name,
                         shown_token(wanted)));
    }
  }
}

LoadedDraftModel load_draft_model(const EngineOptions& engine, ModelSource source, Backend& target) {
  EngineOptions options = draft_options(engine);
  const Model& model = *source.model;
  const uint32_t ranks = ranks_of(options);
  const bool on_host = target.name() == name_of(BackendKind::kHost);
  options.backend = target.name();
  const ModelBytes bytes = on_host ? bytes_of_model(model, ranks) : bytes_of_rank(model, ranks);
  options.context =
      static_cast<int>(std::min(target.limits().max_context, static_cast<uint32_t>(model.max_position)));
  options.kv_cache_memory = uint64_t{target.limits().kv_blocks} * kKvBlockTokens * bytes.kv_of_token;
  try {
    check_ranks(model, ranks);
    LoadedDraftModel loaded{load_model(options, std::move(source)).backend, bytes.weights,
                            options.kv_cache_memory};
    if (loaded.backend->draft_rows() > 0) return loaded;
    throw Error(ErrorKind::kUsage, "its programs multiply tiles in passes of all sizes");
  } catch (const Error& error) {
    throw Error(error.kind(), std::string("draft model: ") + error.what());
  }
}

}  // namespace serval
