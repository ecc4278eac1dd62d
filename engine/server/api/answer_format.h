// Answers of completions and chats in OpenAI's format: one JSON object, or one for each event of a stream
// (platform.openai.com/docs/api-reference).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/server/api/parameters.h"

namespace serval::server {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens that were found in the KV cache
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;  // completion tokens before </think>
};

// A token with its log probability.
struct LikelyToken {
  int32_t id = 0;
  std::string bytes = {};  // may end or begin inside a character
  bool in_text = true;     // false: a control token that is not part of the answer's text
  float log_probability = 0;
};

struct TokenLogprob {
  LikelyToken token = {};
  size_t text_offset = 0;  // in characters: the character of the answer's text in which the token begins
  std::vector<LikelyToken> likeliest = {};
  bool is_scored = true;  // false: the first token of a prompt, which has no log probability
};

// The stop string or the request's own stop token that ended an answer; monostate: another reason.
using StopReason = std::variant<std::monostate, std::string, int32_t>;

// A part of a call of a tool, or all of it. The first piece of a call has `id` and `name`; later ones only
// have arguments.
struct CallPiece {
  size_t index = 0;  // of the call within the answer
  std::string id = {}, name = {};
  std::string arguments = {};  // JSON, as the model wrote it
  bool ends = false;           // the arguments are complete
};

// A part of an answer, or all of it. A part of a stream has only one of reasoning, text and one call.
struct Piece {
  std::string text = {};  // content
  std::string reasoning = {};
  std::vector<CallPiece> calls = {};
  bool with_logprobs = false;
  bool with_likeliest = false;
  std::vector<TokenLogprob> logprobs = {};
  std::optional<std::vector<int32_t>> token_ids = {};
  const std::vector<int32_t>* prompt_token_ids = nullptr;  // null: not listed
  bool with_prompt = false;                                // `prompt_logprobs`
  std::vector<TokenLogprob> prompt = {};                   // the prompt's tokens
  std::vector<float> embedding = {};
  std::string finish_reason = {};  // empty: more pieces follow
  StopReason stop_reason = {};     // vLLM's
};

struct AnswerIdentity {
  std::string id;
  std::string model;
  int64_t created = 0;  // seconds since 1970
};

// Formats the answers of one request. Thread-safe.
class AnswerFormat {
 public:
  AnswerFormat(TextPath path, const AnswerIdentity& identity);

  // The whole answer. `choices` is in the order of their indices.
  std::string complete(const std::vector<Piece>& choices, const Usage& usage) const;
  // Server-sent events, ready to send. `with_usage`: a usage event will follow; all others then have
  // "usage": null.
  // Empty for completions, which have none. `prompt_token_ids`: null if they are not listed.
  std::string first_event(size_t choice, bool with_usage,
                          const std::vector<int32_t>* prompt_token_ids = nullptr) const;
  std::string event(size_t choice, const Piece& piece, bool with_usage) const;
  std::string usage_event(const Usage& usage) const;

 private:
  std::string event_of_choice(const std::string& choice, bool with_usage,
                              const std::vector<int32_t>* prompt_token_ids = nullptr) const;

  const TextPath path_;
  const std::string answer_opening_, event_opening_;  // JSON up to the choices
};

inline constexpr const char* kLastEvent = "data: [DONE]\n\n";
// A server-sent event with `json`, which must be one line.
std::string event_of(const std::string& json);

}  // namespace serval::server
