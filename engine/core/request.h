// Checks callers' requests and converts them for a sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/constraint.h"
#include "engine/grammar/format.h"
#include "engine/include/serval/engine.h"
#include "engine/text/shown_tokens.h"
#include "models/pooling.h"
#include "vm/state/adjustments.h"

namespace serval {

// Limits of a request's fields, apart from sampling parameters (instructions/sample/ranges.h).
struct RequestLimits {
  static constexpr size_t kMaxStopStrings = 64;
  static constexpr size_t kMaxStopBytes = 1024;
  static constexpr size_t kMaxBadWords = 128;
  static constexpr size_t kMaxBadWordBytes = 256;
  static constexpr size_t kMaxSaltBytes = 256;
  static constexpr size_t kMaxPromptBytes = size_t{64} << 20;
  static constexpr int kMaxAnswers = 128;
  static constexpr size_t kMaxLogitBiases = serval::kMaxLogitBiases;
};

// Limits that the model sets.
struct ModelLimits {
  int32_t vocab_size = 0;
  uint32_t context = 0;                       // tokens a sequence may hold, generated ones included
  std::vector<int32_t> stop_tokens;           // at most kMaxStopTokens
  std::optional<PoolingConfig> pooling = {};  // requests are for embeddings
  uint32_t hidden_size = 0;                   // values of an embedding
};

// A request in which every value is in range.
struct PreparedRequest {
  std::vector<int32_t> prompt;  // at least 1 token, fewer than the context; for an embedding, up to it
  SamplingParams sampling;
  uint32_t max_tokens = 0;  // at most the rest of the context
  uint32_t min_tokens = 0;
  uint32_t top_logprobs = 0;                // at most the vocabulary
  std::optional<uint32_t> prompt_logprobs;  // likewise, for tokens of the prompt; none: no log-probabilities
  uint32_t prompt_logprobs_from = 1;  // the first of these tokens; at least 1, at most the prompt's length
  std::vector<int32_t> stop_tokens;   // the model's, then the request's own; at most kMaxStopTokens
  std::vector<LogitBias> logit_bias;
  std::shared_ptr<grammar::Constraint> constraint;         // on the text; null: none
  std::optional<grammar::ReasoningLimit> reasoning_limit;  // only with `constraint`
  // Control tokens that are part of the text, although skip_special_tokens leaves others out.
  std::vector<ShownToken> shown_tokens;
  size_t model_stop_tokens = 0;  // number of stop_tokens that are the model's
  std::vector<std::string> stop;
  bool include_stop_in_text = false;
  std::vector<std::vector<int32_t>> bad_words;  // their token ids; none is empty
  std::string cache_salt;
  std::optional<PoolingConfig> pooling;  // of the prompt's embedding; then max_tokens is 0
  uint32_t dimensions = 0;               // values of the embedding
  int answers = 1;
  int priority = 0;
  std::optional<double> deadline_ms;
  bool reuse_prefix = true;
  bool speculative = true;
  bool skip_special_tokens = true;

  // Positions that the passes run; the last generated token is not run.
  uint32_t positions() const;
  // Returns whether the token is one of the request's own stop tokens and not one of the model's.
  bool is_own_stop_token(int32_t token) const;
};

// Throws Error(kUsage) naming the first id that is not in the vocabulary.
void check_token_ids(const char* field, std::span<const int32_t> ids, int32_t vocab_size);

// Throws Error(kUsage) if there is no message, or one with a role other than "system", "user", "assistant" or
// "tool".
void check_messages(std::span<const ChatMessage> messages);

// The format of the request's text; nullopt: any text. Throws Error(kUsage) if more than one is set.
std::optional<grammar::Format> format_of(const Request& request);

// Checks everything that does not need the encoded prompt. Throws Error(kUsage) with one line: the field, the
// value, the limit.
void check_request(const Request& request);

// `prompt` is the request's prompt as token ids. Throws Error(kUsage) if it is empty, leaves no room for a
// token in the context (which an embedding does not need), if the request is for an embedding and the engine
// generates or the other way round, or if token ids, stop tokens or biases are not in the vocabulary or too
// many.
PreparedRequest prepare_request(const Request& request, std::vector<int32_t> prompt,
                                const ModelLimits& limits);

}  // namespace serval
