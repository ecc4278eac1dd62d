// Splits the text of an answer into reasoning, content and calls of tools while it is generated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/include/serval/chat.h"

namespace serval {

struct AnswerEvent {
  enum class Kind {
    kReasoning,  // `text` is a piece of the reasoning
    kContent,    // `text` is a piece of the content
    kCallBegin,  // call `call` begins; `text` is the function's name
    kArguments,  // `text` is a piece of the arguments of call `call`, JSON as the model wrote it
    kCallEnd,    // the arguments of call `call` are complete
  };
  Kind kind = Kind::kContent;
  std::string text = {};
  size_t call = 0;  // counts from 0
  friend bool operator==(const AnswerEvent&, const AnswerEvent&) = default;
};

// How the text is written.
struct AnswerShape {
  Reasoning reasoning = Reasoning::kNone;
  ToolFormat tools = ToolFormat::kNone;  // kNone: calls are content

  bool is_plain() const { return reasoning == Reasoning::kNone && tools == ToolFormat::kNone; }
};

// Takes the text in pieces. If adjacent pieces of the same part are joined, the events do not depend on the
// division into pieces. Text that may be the beginning of a marker waits for the next piece. Markers and the
// line breaks around them are in no event. What looks like a call but has no function name is content. If the
// text ends inside a call, the call has no kCallEnd. Not thread-safe.
class AnswerParser {
 public:
  explicit AnswerParser(const AnswerShape& shape);
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;
  ~AnswerParser();

  std::vector<AnswerEvent> push(std::string_view piece);
  // Call at the end of the text, once.
  std::vector<AnswerEvent> finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace serval
