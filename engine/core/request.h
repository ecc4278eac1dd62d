// Requests as callers write them, checked and turned into what a sequence needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/constraint.h"
#include "engine/include/serval/engine.h"
#include "vm/state/adjustments.h"

namespace serval {

// What a request may contain, beside sampling parameters within instructions/sample/ranges.h.
struct RequestLimits {
  static constexpr size_t kMaxStopStrings = 64;
  static constexpr size_t kMaxStopBytes = 1024;
  static constexpr size_t kMaxPromptBytes = size_t{64} << 20;
  static constexpr int kMaxAnswers = 128;
  static constexpr size_t kMaxLogitBiases = serval::kMaxLogitBiases;
};

// What the model allows.
struct ModelLimits {
  int32_t vocab_size = 0;
  uint32_t context = 0;              // tokens a sequence may hold, generated ones included
  std::vector<int32_t> stop_tokens;  // at most kMaxStopTokens
};

// A request whose every value is in range.
struct PreparedRequest {
  std::vector<int32_t> prompt;  // at least 1 token, fewer than the context
  SamplingParams sampling;
  uint32_t max_tokens = 0;  // at most what the context leaves
  uint32_t min_tokens = 0;
  uint32_t top_logprobs = 0;         // at most the vocabulary
  std::vector<int32_t> stop_tokens;  // the model's, then the request's own; at most kMaxStopTokens
  std::vector<LogitBias> logit_bias;
  std::shared_ptr<grammar::Constraint> constraint;  // of the text; null: none
  size_t model_stop_tokens = 0;                     // how many of them are the model's
  std::vector<std::string> stop;
  int answers = 1;
  int priority = 0;
  std::optional<double> deadline_ms;
  bool reuse_prefix = true;

  // Positions that are run: the last token that is generated is not.
  uint32_t positions() const;
  // Whether the token is one of the request's own that end an answer, and not the model's.
  bool is_own_stop_token(int32_t token) const;
};

// Throws Error(kUsage) naming the first id that is not in the vocabulary.
void check_token_ids(const char* field, std::span<const int32_t> ids, int32_t vocab_size);

// Throws Error(kUsage) where there is no message or one whose role is not "system", "user" or "assistant".
void check_messages(std::span<const ChatMessage> messages);

// Everything of a request that can be checked before its prompt is encoded. Throws Error(kUsage) with one
// line: the field, what was found, the limit.
void check_request(const Request& request);

// `prompt` is the request's prompt as token ids. Throws Error(kUsage) where it is empty, holds an id that is
// not in the vocabulary, or does not leave room for one token in the context, and for stop tokens and
// biases that are too many or not in the vocabulary.
PreparedRequest prepare_request(const Request& request, std::vector<int32_t> prompt,
                                const ModelLimits& limits);

}  // namespace serval
