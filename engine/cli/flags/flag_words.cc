#include "engine/cli/flags/flag_words.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace serval::cli {
namespace {

struct Names {
  std::string_view field;
  std::string_view short_flag;  // empty: none
  std::string_view flag;
  const char* variable;
};

constexpr Names kNames[] = {
    {"context", "-c", "--ctx-size", "SERVAL_CTX_SIZE"},
    {"max_sequences", "", "--max-sequences", "SERVAL_MAX_SEQUENCES"},
    {"max_batch_tokens", "", "--max-batch-tokens", "SERVAL_MAX_BATCH_TOKENS"},
    {"batch_invariant", "", "--batch-invariant", "SERVAL_BATCH_INVARIANT"},
    {"kv_cache_memory", "", "--kv-cache-memory", "SERVAL_KV_CACHE_MEMORY"},
    {"sms", "", "--sms", "SERVAL_SMS"},
    {"gpus", "", "--gpus", "SERVAL_GPUS"},
    {"threads", "", "--threads", "SERVAL_THREADS"},
    {"interleaving", "", "--interleaving", "SERVAL_INTERLEAVING"},
    {"checked", "", "--checked", "SERVAL_CHECKED"},
    {"fault_at_launch", "", "--fault-at-launch", "SERVAL_FAULT_AT_LAUNCH"},
    {"program", "", "--program", "SERVAL_PROGRAM"},
    {"policy", "", "--policy", "SERVAL_POLICY"},
    {"global_queue", "", "--queue", "SERVAL_QUEUE"},
    {"backend", "", "--backend", "SERVAL_BACKEND"},
    {"chat_template", "", "--chat-template", "SERVAL_CHAT_TEMPLATE"},
    {"model_draft", "-md", "--model-draft", "SERVAL_MODEL_DRAFT"},
    {"draft_p_min", "", "--draft-p-min", "SERVAL_DRAFT_P_MIN"},
    {"draft_max", "", "--draft-max", "SERVAL_DRAFT_MAX"},
    {"draft_min", "", "--draft-min", "SERVAL_DRAFT_MIN"},
    {"ngram_min", "", "--spec-ngram-min", "SERVAL_SPEC_NGRAM_MIN"},
    {"ngram_max", "", "--spec-ngram-max", "SERVAL_SPEC_NGRAM_MAX"},
    {"shard_size", "", "--shard-size", "SERVAL_SHARD_SIZE"},
    {"trace_tokens", "", "--trace-tokens", "SERVAL_TRACE_TOKENS"},
};

bool was_given(const Names& names, const Arguments& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument.starts_with(names.flag) ||
           (!names.short_flag.empty() && argument.starts_with(names.short_flag));
  });
}

}  // namespace

std::string in_flag_words(const std::string& line, const Arguments& arguments) {
  for (const Names& names : kNames) {
    if (!line.starts_with(names.field) || !line.substr(names.field.size()).starts_with(": ")) continue;
    const std::string rest = line.substr(names.field.size());
    if (was_given(names, arguments)) return std::string(names.flag) + rest;
    return std::getenv(names.variable) == nullptr ? line : names.variable + rest;
  }
  return line;
}

}  // namespace serval::cli
