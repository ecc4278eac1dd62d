// Turns the text of one answer into the pieces that answers are written from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer/answer_parser.h"
#include "engine/answer/reasoning_tokens.h"
#include "engine/server/api/answer_format.h"

namespace serval::server {

// Not thread-safe.
class AnswerPieces {
 public:
  explicit AnswerPieces(const AnswerShape& shape);

  // Counts a token. `bytes`: its text, control tokens included; only called where counts_tokens().
  void count(std::string_view bytes) { tokens_.add(bytes); }
  bool counts_tokens() const { return shape_.reasoning != Reasoning::kNone; }
  uint32_t reasoning_tokens() const { return tokens_.count(); }

  // The pieces that a text completes, each with one part of the answer.
  std::vector<Piece> push(std::string_view text);
  // Call at the end of the text, once.
  std::vector<Piece> finish();
  bool has_calls() const { return complete_calls_ > 0; }

 private:
  Piece piece_of(const AnswerEvent& event);
  std::vector<Piece> pieces_of(const std::vector<AnswerEvent>& events);

  const AnswerShape shape_;
  std::optional<AnswerParser> parser_;  // none: all text is content
  ReasoningTokens tokens_;
  size_t complete_calls_ = 0;
};

// Adds a piece to the answer that consists of the pieces before it.
void append(Piece& whole, const Piece& piece);

}  // namespace serval::server
