#include "engine/answer/answer_parser.h"

#include <algorithm>
#include <utility>

#include "engine/answer/call_text.h"
#include "engine/answer/formats.h"

namespace serval {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Length of the longest end of `text` that is a beginning of `marker`, without all of it.
size_t overlap(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length)
    if (text.ends_with(marker.substr(0, length))) return length;
  return 0;
}

// True if more text may make `text` begin with `marker`.
bool may_become(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

size_t first_not_in(std::string_view text, std::string_view characters) {
  return std::min(text.find_first_not_of(characters), text.size());
}

// Length of `text` without the characters at its end.
size_t length_without(std::string_view text, std::string_view characters) {
  const size_t last = text.find_last_not_of(characters);
  return last == std::string_view::npos ? 0 : last + 1;
}

// What opens calls anywhere in the content.
std::string_view opening_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kLlama3Json:
      return kPythonTag;
    case ToolFormat::kMistral:
      return kToolCallsBegin;
    case ToolFormat::kHermes:
    case ToolFormat::kSmolLm2:
    case ToolFormat::kNone:
      break;
  }
  return kToolCallBegin;
}

}  // namespace

class AnswerParser::State {
 public:
  explicit State(const AnswerShape& shape)
      : shape_(shape),
        opening_(opening_of(shape.tools)),
        is_list_(shape.tools == ToolFormat::kMistral || shape.tools == ToolFormat::kSmolLm2),
        mode_(shape.reasoning == Reasoning::kNone ? Mode::kContent : Mode::kBegin) {}

  std::vector<AnswerEvent> push(std::string_view piece) {
    buffer_ += piece;
    while (step()) {
    }
    return std::exchange(events_, {});
  }
  std::vector<AnswerEvent> finish() {
    ended_ = true;
    return push({});
  }

 private:
  enum class Mode {
    kBegin,      // <think> may follow
    kReasoning,  // until </think>
    kContent,    // until a call opens
    kArguments,  // inside of a call's arguments
    kObjectEnd,  // after them, inside of the call's object
    kCallsEnd,   // after a call's object
  };

  // Each step reads a part of the buffer, and returns false if it needs more text.
  bool step() {
    if (buffer_.empty()) return false;
    switch (mode_) {
      case Mode::kBegin:
        return begin();
      case Mode::kReasoning:
        return reasoning();
      case Mode::kContent:
        return shape_.tools == ToolFormat::kNone ? plain_content() : content();
      case Mode::kArguments:
        return arguments();
      case Mode::kObjectEnd:
        return object_end();
      case Mode::kCallsEnd:
        break;
    }
    return calls_end();
  }

  void emit(AnswerEvent::Kind kind, std::string_view text) {
    const bool is_text = kind == AnswerEvent::Kind::kReasoning || kind == AnswerEvent::Kind::kContent;
    if (!text.empty() || !is_text) events_.push_back({kind, std::string(text), is_text ? 0 : calls_});
  }
  // Emits the first `length` bytes of the buffer and drops them.
  void emit_buffered(AnswerEvent::Kind kind, size_t length) {
    emit(kind, std::string_view(buffer_).substr(0, length));
    drop(length);
  }
  void drop(size_t length) { buffer_.erase(0, length); }
  bool go_to(Mode mode) {
    mode_ = mode;
    return true;
  }

  bool begin() {
    const size_t spaces = first_not_in(buffer_, " \n");
    const std::string_view text = std::string_view(buffer_).substr(spaces);
    if (text.starts_with(kThinkBegin)) {
      drop(spaces + kThinkBegin.size());
      skip_lines_ = true;
      return go_to(Mode::kReasoning);
    }
    if (!ended_ && may_become(text, kThinkBegin)) return false;
    skip_lines_ = shape_.reasoning == Reasoning::kOpen;
    return go_to(skip_lines_ ? Mode::kReasoning : Mode::kContent);
  }

  // Drops line breaks while `skip_lines_`. Returns false if nothing is left.
  bool skip_lines() {
    if (!skip_lines_) return true;
    drop(first_not_in(buffer_, "\n"));
    skip_lines_ = buffer_.empty();
    return !buffer_.empty();
  }

  bool reasoning() {
    if (!skip_lines()) return false;
    const size_t end = buffer_.find(kThinkEnd);
    if (end != std::string::npos) {
      emit(AnswerEvent::Kind::kReasoning,
           std::string_view(buffer_).substr(0,
                                            length_without(std::string_view(buffer_).substr(0, end), "\n")));
      drop(end + kThinkEnd.size());
      skip_lines_ = true;
      return go_to(Mode::kContent);
    }
    emit_buffered(AnswerEvent::Kind::kReasoning, length_to_deliver(kThinkEnd, "\n"));
    return false;
  }

  // Bytes of the buffer that are certainly neither part of `marker` nor `gaps` before it.
  size_t length_to_deliver(std::string_view marker, std::string_view gaps) const {
    if (ended_) return buffer_.size();
    const std::string_view text =
        std::string_view(buffer_).substr(0, buffer_.size() - overlap(buffer_, marker));
    return length_without(text, gaps);
  }

  bool plain_content() {
    if (!skip_lines()) return false;
    emit_buffered(AnswerEvent::Kind::kContent, buffer_.size());
    return false;
  }

  bool content() {
    if (!skip_lines()) return false;
    if (calls_ > 0 && after_call_) {
      drop(first_not_in(buffer_, kSpaces));
      if (buffer_.empty()) return false;
      after_call_ = false;
    }
    if (at_start_ && shape_.tools == ToolFormat::kLlama3Json) {
      const auto opened = open_at_start();
      if (opened != CallHead::Match::kNo) return opened == CallHead::Match::kYes;
    }
    const size_t found = buffer_.find(opening_, searched_);
    if (found != std::string::npos) return open_after_marker(found);
    const size_t length = length_to_deliver(opening_, kSpaces);
    if (length == 0) return false;
    at_start_ = at_start_ && length_without(std::string_view(buffer_).substr(0, length), kSpaces) == 0;
    searched_ = searched_ > length ? searched_ - length : 0;
    emit_buffered(AnswerEvent::Kind::kContent, length);
    return false;
  }

  // Llama's calls have no marker where the answer begins with them.
  CallHead::Match open_at_start() {
    const size_t spaces = first_not_in(buffer_, kSpaces);
    if (spaces == buffer_.size() && !ended_) return CallHead::Match::kPartly;
    const CallHead::Match match = open(spaces, /*is_marked=*/false);
    if (match == CallHead::Match::kNo) at_start_ = false;
    return match;
  }

  bool open_after_marker(size_t marker) {
    const size_t text = length_without(std::string_view(buffer_).substr(0, marker), kSpaces);
    if (text > 0) {
      emit_buffered(AnswerEvent::Kind::kContent, text);
      at_start_ = false;
      searched_ = 0;
      marker -= text;
    }
    size_t after = marker + opening_.size();
    if (is_list_) {
      after += first_not_in(std::string_view(buffer_).substr(after), kSpaces);
      if (after == buffer_.size() && !ended_) return false;
      if (after < buffer_.size() && buffer_[after] == '[') ++after;
    }
    const CallHead::Match match = open(after, /*is_marked=*/true);
    if (match == CallHead::Match::kNo) searched_ = marker + opening_.size();  // it is content
    return match != CallHead::Match::kPartly;
  }

  // Begins the call whose object is at `position`, if one is there. `is_marked`: a marker says that it is a
  // call, so that a name is enough where the text ends.
  CallHead::Match open(size_t position, bool is_marked) {
    const CallHead head = read_call_head(std::string_view(buffer_).substr(position));
    if (head.match == CallHead::Match::kPartly && !ended_) return head.match;
    if (head.match == CallHead::Match::kPartly && is_marked && !head.name.empty()) {
      emit(AnswerEvent::Kind::kCallBegin, head.name);
      drop(buffer_.size());
      return CallHead::Match::kYes;
    }
    if (head.match != CallHead::Match::kYes) return CallHead::Match::kNo;
    drop(position + head.length);
    searched_ = 0;
    at_start_ = false;
    emit(AnswerEvent::Kind::kCallBegin, head.name);
    if (head.has_arguments) {
      nesting_ = JsonNesting();
      mode_ = Mode::kArguments;
    } else {
      emit(AnswerEvent::Kind::kArguments, "{}");
      end_call();
      mode_ = Mode::kCallsEnd;
    }
    return head.match;
  }

  void end_call() {
    emit(AnswerEvent::Kind::kCallEnd, {});
    ++calls_;
    after_call_ = true;
  }

  bool arguments() {
    emit_buffered(AnswerEvent::Kind::kArguments, nesting_.read(buffer_));
    if (!nesting_.ended()) return false;
    end_call();
    nesting_ = JsonNesting(1);
    return go_to(Mode::kObjectEnd);
  }

  bool object_end() {
    drop(nesting_.read(buffer_));
    return nesting_.ended() && go_to(Mode::kCallsEnd);
  }

  bool calls_end() {
    drop(first_not_in(buffer_, kSpaces));
    if (buffer_.empty()) return false;
    const char next = buffer_.front();
    const char separator = shape_.tools == ToolFormat::kLlama3Json ? ';' : ',';
    if (next == separator && shape_.tools != ToolFormat::kHermes) return next_call();
    if (next == ']' && is_list_) {
      drop(1);
      return true;
    }
    const bool closes = shape_.tools == ToolFormat::kHermes || shape_.tools == ToolFormat::kSmolLm2;
    if (closes && buffer_.starts_with(kToolCallEnd)) {
      drop(kToolCallEnd.size());
    } else if (closes && may_become(buffer_, kToolCallEnd)) {
      if (!ended_) return false;
      drop(buffer_.size());
    }
    return go_to(Mode::kContent);
  }

  // After a separator: another call, or content.
  bool next_call() {
    const CallHead::Match match = open(1, /*is_marked=*/true);
    if (match == CallHead::Match::kNo) mode_ = Mode::kContent;
    return match != CallHead::Match::kPartly;
  }

  const AnswerShape shape_;
  const std::string_view opening_;
  const bool is_list_;
  Mode mode_;
  std::string buffer_;       // text that is not decided yet
  size_t searched_ = 0;      // bytes of it in which no call opens
  bool ended_ = false;       // no more text comes
  bool skip_lines_ = false;  // line breaks that come next are dropped
  bool at_start_ = true;     // the content has only spaces so far
  bool after_call_ = false;  // spaces that come next are dropped
  size_t calls_ = 0;         // number of complete calls
  JsonNesting nesting_;
  std::vector<AnswerEvent> events_;
};

AnswerParser::AnswerParser(const AnswerShape& shape) : state_(std::make_unique<State>(shape)) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

std::vector<AnswerEvent> AnswerParser::push(std::string_view piece) {
  return state_->push(piece);
}
std::vector<AnswerEvent> AnswerParser::finish() {
  return state_->finish();
}

}  // namespace serval
