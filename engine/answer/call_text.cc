#include "engine/answer/call_text.h"

#include "nlohmann/json.hpp"

namespace serval {
namespace {

using Match = CallHead::Match;

constexpr size_t kMaxNameBytes = 512;

// Reads a text from left to right. Once a part does not match, or the text ends before it is decided, every
// further part fails.
class HeadReader {
 public:
  explicit HeadReader(std::string_view text) : text_(text) {}

  Match match() const { return match_; }
  size_t position() const { return position_; }

  bool skip_spaces() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
    if (position_ == text_.size()) match_ = Match::kPartly;
    return ok();
  }
  // Reads `part` after spaces.
  bool read(std::string_view part) {
    if (!ok() || !skip_spaces()) return false;
    const std::string_view rest = text_.substr(position_, part.size());
    if (rest == part) {
      position_ += part.size();
    } else {
      match_ = part.starts_with(rest) ? Match::kPartly : Match::kNo;
    }
    return ok();
  }
  // True if `part` is next after spaces, which are read then; false, without a failure, if it is not.
  bool read_if(std::string_view part) {
    const size_t before = position_;
    if (read(part)) return true;
    if (match_ == Match::kNo) {
      match_ = Match::kYes;
      position_ = before;
    }
    return false;
  }
  // Reads a JSON string after spaces.
  std::string read_string() {
    if (!read("\"")) return {};
    const size_t begin = position_ - 1;
    for (; position_ < text_.size() && text_[position_] != '"'; ++position_) {
      if (text_[position_] == '\\') ++position_;
    }
    const size_t length = position_ - begin;
    if (length > kMaxNameBytes) return fail();
    if (position_ >= text_.size()) {
      match_ = Match::kPartly;
      return {};
    }
    ++position_;
    const auto value = nlohmann::json::parse(text_.substr(begin, length + 1), nullptr, false);
    return value.is_string() ? value.get<std::string>() : fail();
  }
  std::string fail() {
    match_ = Match::kNo;
    return {};
  }
  bool ok() const { return match_ == Match::kYes; }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  std::string_view text_;
  size_t position_ = 0;
  Match match_ = Match::kYes;
};

}  // namespace

CallHead read_call_head(std::string_view text) {
  HeadReader reader(text);
  CallHead head;
  reader.read("{");
  if (reader.ok() && reader.read_if("\"type\"")) {
    for (const std::string_view part : {":", "\"function\"", ","}) reader.read(part);
  }
  if (reader.ok() && reader.read("\"name\"") && reader.read(":")) head.name = reader.read_string();
  if (reader.ok() && head.name.empty()) reader.fail();
  if (reader.ok() && reader.read_if(",")) {
    if (!reader.read_if("\"arguments\"") && reader.ok()) reader.read("\"parameters\"");
    if (reader.read(":") && reader.read("{")) head.has_arguments = true;
  } else if (reader.ok()) {
    reader.read("}");
  }
  head.match = reader.match();
  head.length = reader.position() - (head.has_arguments ? 1 : 0);
  return head;
}

size_t JsonNesting::read(std::string_view text) {
  size_t i = 0;
  for (; i < text.size() && !ended_; ++i) {
    const char c = text[i];
    if (escaped_) {
      escaped_ = false;
    } else if (in_text_) {
      escaped_ = c == '\\';
      in_text_ = c != '"';
    } else if (c == '"') {
      in_text_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      ended_ = --depth_ <= 0;
    }
  }
  return i;
}

}  // namespace serval
