#include "engine/server/service/answer_pieces.h"

#include "engine/server/http/request_id.h"

namespace serval::server {
namespace {

// Mistral's templates take ids of 9 letters and digits only.
std::string new_call_id(ToolFormat format) {
  constexpr size_t kMistralBytes = 9;
  return format == ToolFormat::kMistral ? new_request_id("").substr(0, kMistralBytes)
                                        : new_request_id("call_");
}

}  // namespace

AnswerPieces::AnswerPieces(const AnswerShape& shape) : shape_(shape), tokens_(shape.reasoning) {
  if (!shape.is_plain()) parser_.emplace(shape);
}

std::vector<Piece> AnswerPieces::push(std::string_view text) {
  if (parser_) return pieces_of(parser_->push(text));
  if (text.empty()) return {};
  return {Piece{.text = std::string(text)}};
}

std::vector<Piece> AnswerPieces::finish() {
  if (!parser_) return {};
  return pieces_of(parser_->finish());
}

std::vector<Piece> AnswerPieces::pieces_of(const std::vector<AnswerEvent>& events) {
  std::vector<Piece> pieces;
  for (const AnswerEvent& event : events) pieces.push_back(piece_of(event));
  return pieces;
}

Piece AnswerPieces::piece_of(const AnswerEvent& event) {
  switch (event.kind) {
    case AnswerEvent::Kind::kReasoning:
      return {.reasoning = event.text};
    case AnswerEvent::Kind::kContent:
      return {.text = event.text};
    case AnswerEvent::Kind::kCallBegin:
      return {.calls = {{.index = event.call, .id = new_call_id(shape_.tools), .name = event.text}}};
    case AnswerEvent::Kind::kArguments:
      return {.calls = {{.index = event.call, .arguments = event.text}}};
    case AnswerEvent::Kind::kCallEnd:
      break;
  }
  ++complete_calls_;
  return {.calls = {{.index = event.call, .ends = true}}};
}

void append(Piece& whole, const Piece& piece) {
  whole.text += piece.text;
  whole.reasoning += piece.reasoning;
  for (const CallPiece& call : piece.calls) {
    if (!call.id.empty()) {
      whole.calls.push_back(call);
    } else {
      whole.calls.back().arguments += call.arguments;
      whole.calls.back().ends = call.ends;
    }
  }
}

}  // namespace serval::server
