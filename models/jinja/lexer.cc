#include "models/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "models/jinja/text.h"
#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Replaces each line end by \n and removes one at the end of the text.
std::string normalized(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where) : source_(source), where_(where) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) take_data();
    add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: line {}: {}", where_, line_, what));
  }

  std::string_view rest() const { return source_.substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }

  void skip(std::size_t bytes) {
    const std::string_view skipped = rest().substr(0, bytes);
    line_ += static_cast<int>(std::count(skipped.begin(), skipped.end(), '\n'));
    at_ += skipped.size();
  }

  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Takes text up to a tag, and the tag.
  void take_data() {
    std::size_t length = 0;
    while (at_ + length < source_.size() && !begins_tag(at_ + length)) ++length;
    const std::size_t tag = at_ + length;
    std::string_view data = source_.substr(at_, length);
    if (tag < source_.size()) data = before_tag(data, source_[tag + 1], tag + 2);
    if (!data.empty()) add(Token::Kind::kData, std::string(data));
    skip(length);
    if (at_ < source_.size()) take_tag();
  }

  bool begins_tag(std::size_t at) const {
    return source_[at] == '{' && at + 1 < source_.size() &&
           std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos;
  }

  // Removes the white space at the end of `data` that the following tag strips. `kind` is the tag's second
  // character, `sign` the offset of its third.
  std::string_view before_tag(std::string_view data, char kind, std::size_t sign) const {
    const char c = sign < source_.size() ? source_[sign] : '\0';
    if (c == '-') {
      while (!data.empty() && is_python_space(last_character(data)))
        data.remove_suffix(last_character(data).size());
    } else if (c != '+' && kind != '{') {
      const std::size_t newline = data.rfind('\n');
      const std::size_t line = newline == data.npos ? 0 : newline + 1;
      const bool at_line_start = line > 0 || starts_line_;
      if (at_line_start && is_space(data.substr(line))) data = data.substr(0, line);
    }
    return data;
  }

  static bool is_space(std::string_view text) {
    while (!text.empty() && is_python_space(first_character(text)))
      text.remove_prefix(first_character(text).size());
    return text.empty();
  }

  void take_tag() {
    const char kind = source_[at_ + 1];
    skip(2);
    if (kind == '#') return take_comment();
    const bool block = kind == '%';
    if (sees("-") || (block && sees("+"))) skip(1);
    if (block && take_raw()) return;
    add(block ? Token::Kind::kBlockBegin : Token::Kind::kVariableBegin, "");
    while (!take_tag_end(block)) take_token();
  }

  void take_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) fail("{# has no #}");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    skip(end - at_ + 2);
    after_tag(sign, /*trims=*/true);
  }

  // Strips white space after a tag: all of it for '-', none for '+', else one line end if `trims`.
  void after_tag(char sign, bool trims) {
    const std::size_t begin = at_;
    if (sign == '-') {
      while (at_ < source_.size() && is_python_space(first_character(rest())))
        skip(first_character(rest()).size());
    } else if (trims && sign != '+' && sees("\n")) {
      skip(1);
    }
    starts_line_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  // Takes {% raw %} … {% endraw %}. The first {% has been taken. Returns false for other blocks.
  bool take_raw() {
    const std::size_t begin = at_;
    const int line = line_;
    take_spaces();
    if (!sees("raw")) return at_ = begin, line_ = line, false;
    skip(3);
    take_spaces();
    const bool closes = sees("-%}") || sees("%}") || sees("+%}");
    if (!closes) return at_ = begin, line_ = line, false;
    char sign = source_[at_];
    skip(sign == '%' ? 2 : 3);
    after_tag(sign, /*trims=*/true);
    for (std::size_t tag = source_.find("{%", at_); tag != source_.npos; tag = source_.find("{%", tag + 2)) {
      std::size_t at = tag + 2;
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
      while (at < source_.size() && (source_[at] == ' ' || source_[at] == '\n' || source_[at] == '\t')) ++at;
      if (!source_.substr(at).starts_with("endraw")) continue;
      const std::string_view data = before_tag(source_.substr(at_, tag - at_), '%', tag + 2);
      if (!data.empty()) add(Token::Kind::kData, std::string(data));
      skip(at + 6 - at_);
      take_spaces();
      sign = at_ < source_.size() ? source_[at_] : '\0';
      if (sign == '-' || sign == '+') skip(1);
      if (!sees("%}")) fail("endraw has no %}");
      skip(2);
      after_tag(sign, /*trims=*/true);
      return true;
    }
    fail("raw has no endraw");
  }

  void take_spaces() {
    while (at_ < source_.size() && is_python_space(first_character(rest())))
      skip(first_character(rest()).size());
  }

  bool take_tag_end(bool block) {
    take_spaces();
    if (at_ == source_.size()) fail(block ? "{% has no %}" : "{{ has no }}");
    if (!open_.empty()) return false;
    const std::string_view end = block ? "%}" : "}}";
    const bool signs = sees("-") || (block && sees("+"));
    if (!rest().substr(signs ? 1 : 0).starts_with(end)) return false;
    const char sign = source_[at_];
    skip(end.size() + (signs ? 1 : 0));
    add(block ? Token::Kind::kBlockEnd : Token::Kind::kVariableEnd, "");
    after_tag(sign, block);
    return true;
  }

  void take_token() {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return take_text(c);
    if (is_digit(c)) return take_number();
    if (begins_name(c)) {
      std::size_t length = 1;
      while (length < rest().size() && (begins_name(rest()[length]) || is_digit(rest()[length]))) ++length;
      add(Token::Kind::kName, std::string(rest().substr(0, length)));
      return skip(length);
    }
    take_operator();
  }

  void take_operator() {
    constexpr std::array<std::string_view, 26> kOperators = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", ">",
        "<",  "=",  ".",  ":",  "|",  ",",  ";", "(", ")", "[", "]", "{", "}"};
    for (const std::string_view text : kOperators) {
      if (!sees(text)) continue;
      balance(text[0]);
      add(Token::Kind::kOperator, std::string(text));
      return skip(text.size());
    }
    fail(fmt::format("unexpected {}", in_quotes(first_character(rest()))));
  }

  void balance(char c) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(c) != kOpen.npos) open_ += kClose[kOpen.find(c)];
    if (kClose.find(c) == kClose.npos) return;
    if (open_.empty() || open_.back() != c) fail(fmt::format("unexpected '{}'", c));
    open_.pop_back();
  }

  // Takes 0x1F, 0o17 or 0b11 and adds it in lower case.
  bool take_coded_integer() {
    if (!sees("0") || at_ + 2 >= source_.size()) return false;
    const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    const char letter = small(next());
    const std::string_view all = letter == 'x'   ? "0123456789abcdef"
                                 : letter == 'o' ? "01234567"
                                 : letter == 'b' ? "01"
                                                 : "";
    const auto is_digit_of_base = [&](std::size_t at) {
      return at < source_.size() && all.find(small(source_[at])) != std::string_view::npos;
    };
    std::size_t at = at_ + 2;
    if (!is_digit_of_base(at) && !(source_[at] == '_' && is_digit_of_base(at + 1))) return false;
    std::string digits = {'0', letter};
    for (; is_digit_of_base(at) || (at < source_.size() && source_[at] == '_' && is_digit_of_base(at + 1));
         ++at) {
      if (source_[at] != '_') digits += small(source_[at]);
    }
    at_ = at;
    add(Token::Kind::kInteger, std::move(digits));
    return true;
  }

  // Digits may be separated by single '_'.
  void take_number() {
    if (take_coded_integer()) return;
    std::string digits;
    bool real = false;
    const auto take_digits = [&] {
      while (at_ < source_.size() && (is_digit(source_[at_]) || (source_[at_] == '_' && is_digit(next())))) {
        if (source_[at_] != '_') digits += source_[at_];
        ++at_;
      }
    };
    take_digits();
    if (sees(".") && is_digit(next())) {
      real = true;
      digits += source_[at_++];
      take_digits();
    }
    if (sees("e") || sees("E")) {
      const std::size_t sign =
          at_ + 1 < source_.size() && (source_[at_ + 1] == '+' || source_[at_ + 1] == '-') ? 1 : 0;
      if (at_ + 1 + sign < source_.size() && is_digit(source_[at_ + 1 + sign])) {
        real = true;
        digits += source_.substr(at_, 1 + sign);
        at_ += 1 + sign;
        take_digits();
      }
    }
    if (!real && digits.size() > 1 && digits.front() == '0' && digits.find_first_not_of('0') != digits.npos)
      fail("an integer that begins with 0");
    add(real ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(digits));
  }

  char next() const { return at_ + 1 < source_.size() ? source_[at_ + 1] : '\0'; }

  void take_text(char quote) {
    const int begin = line_;
    std::string out;
    skip(1);
    while (!sees(std::string_view(&quote, 1))) {
      if (at_ == source_.size()) {
        line_ = begin;
        fail("a string has no end");
      }
      if (sees("\\")) {
        take_escape(&out);
      } else {
        out += source_[at_];
        skip(1);
      }
    }
    skip(1);
    std::string repaired;
    add(Token::Kind::kText, std::string(utf8_lossy(out, &repaired)));
  }

  // Follows Python's escapes.
  void take_escape(std::string* out) {
    constexpr std::pair<char, char> kControls[] = {{'n', '\n'},  {'t', '\t'}, {'r', '\r'}, {'f', '\f'},
                                                   {'v', '\v'},  {'a', '\a'}, {'b', '\b'}, {'\\', '\\'},
                                                   {'\'', '\''}, {'"', '"'}};
    constexpr std::pair<char, int> kCodes[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    skip(1);
    if (at_ == source_.size()) fail("a string has no end");
    const char c = source_[at_];
    for (const auto& [letter, control] : kControls) {
      if (c != letter) continue;
      *out += control;
      return skip(1);
    }
    for (const auto& [letter, digits] : kCodes) {
      if (c == letter) return take_code(digits, out);
    }
    if (is_digit(c) || c == 'N') fail(fmt::format("the escape \\{} is not supported", c));
    if (c == '\n') return skip(1);  // line continuation
    *out += '\\';
  }

  void take_code(int digits, std::string* out) {
    constexpr int kHexBase = 16;
    std::uint32_t code = 0;
    const std::string_view text = rest().substr(1, static_cast<std::size_t>(digits));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, kHexBase);
    if (error != std::errc() || end != text.data() + digits || !append_utf8(code, out))
      fail(fmt::format("\\{} needs {} digits of a character", source_[at_], digits));
    skip(1 + static_cast<std::size_t>(digits));
  }

  std::string_view source_, where_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::string open_;  // closing brackets of the open ones
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view where) {
  const std::string text = normalized(source);
  return Lexer(text, where).run();
}

}  // namespace serval::jinja
