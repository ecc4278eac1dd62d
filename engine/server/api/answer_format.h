// Answers as OpenAI's clients read them: one JSON object, or one for each event of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/server/api/parameters.h"

namespace serval::server {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of these, in the KV cache already
  int64_t completion_tokens = 0;
};

// A token as log probabilities show it.
struct LikelyToken {
  int32_t id = 0;
  std::string bytes = {};  // need not be whole characters
  bool in_text = true;     // false: a control token, which the answer's text leaves out
  float log_probability = 0;
};

struct TokenLogprob {
  LikelyToken token = {};
  size_t text_offset = 0;  // of the character in the answer's text in which the token begins, in characters
  std::vector<LikelyToken> likeliest = {};
};

// A part of an answer's text, or the whole.
struct Piece {
  std::string text = {};
  bool with_logprobs = false;
  bool with_likeliest = false;
  std::vector<TokenLogprob> logprobs = {};
  std::string finish_reason = {};  // empty: the answer goes on
};

struct AnswerIdentity {
  std::string id;
  std::string model;
  int64_t created = 0;  // seconds since 1970
};

// Of one request. Thread-safe.
class AnswerFormat {
 public:
  AnswerFormat(TextPath path, const AnswerIdentity& identity);

  // The whole answer; the choices in the order of their indices.
  std::string complete(const std::vector<Piece>& choices, const Usage& usage) const;
  // Events of a stream, as they go over the wire. `counts`: a last event will have the usage, of which the
  // others then say that it is null.
  std::string first_event(size_t choice, bool counts) const;  // empty for a completion, which has none
  std::string event(size_t choice, const Piece& piece, bool counts) const;
  std::string usage_event(const Usage& usage) const;

 private:
  std::string event_of_choice(const std::string& choice, bool counts) const;

  const TextPath path_;
  const std::string answer_opening_, event_opening_;  // JSON up to the choices
};

inline constexpr const char* kLastEvent = "data: [DONE]\n\n";
// An event with an error object in it, or with anything else that is JSON in one line.
std::string event_of(const std::string& json);

}  // namespace serval::server
