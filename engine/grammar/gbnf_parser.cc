#include "engine/grammar/gbnf_parser.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "fmt/format.h"

#include "models/tokenizer/utf8.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {
namespace {

using Limits = GbnfLimits;
using Node = GbnfTree::Node;
using NodeId = GbnfTree::NodeId;
using Kind = GbnfTree::Kind;

constexpr CodePoints kAnyCharacter = {0, kLastCodePoint};

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_line_end(char c) {
  return c == '\n' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// llama.cpp's names have no underscores; those of vLLM's users have.
bool is_of_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  GbnfTree parse() {
    skip_space();
    while (!at_end()) rule();
    for (const GbnfTree::Rule& one : tree_.rules)
      if (!one.body) refuse(one.at, fmt::format("rule {} is not defined", one.name));
    const auto root = index_of_.find("root");
    if (root == index_of_.end()) refuse(0, "no rule is named root, where a text begins");
    tree_.root = root->second;
    return std::move(tree_);
  }

 private:
  [[noreturn]] void refuse(size_t at, const std::string& problem) const { refuse_gbnf(text_, at, problem); }

  bool at_end() const { return at_ >= text_.size(); }
  bool next_is(char c) const { return !at_end() && text_[at_] == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  // The character at `at`, for messages.
  std::string shown(size_t at) const {
    if (at >= text_.size()) return "the end";
    return in_quotes(std::string(text_.substr(at, utf8_first(text_.substr(at)).bytes)));
  }

  // Skips blanks, line ends and comments.
  void skip_space() {
    begins_line_ = at_ == 0;
    for (; !at_end(); ++at_) {
      if (next_is('#')) at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      if (at_end() || (!is_blank(text_[at_]) && !is_line_end(text_[at_]))) return;
      begins_line_ |= is_line_end(text_[at_]);
    }
  }
  size_t after_blanks(size_t at) const {
    while (at < text_.size() && is_blank(text_[at])) ++at;
    return at;
  }

  std::string_view name_at(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_of_name(text_[end])) ++end;
    return text_.substr(at, end - at);
  }
  // Whether a definition begins here: a name and ::= on a new line. It ends the rule before it.
  bool next_is_rule() const {
    const std::string_view name = name_at(at_);
    return begins_line_ && !name.empty() && text_.substr(after_blanks(at_ + name.size())).starts_with("::=");
  }

  uint32_t take_name() {
    const size_t begin = at_;
    const std::string_view name = name_at(at_);
    if (name.size() > Limits::kMaxNameBytes)
      refuse(begin, fmt::format("a name of {} bytes; limit: {}", name.size(), Limits::kMaxNameBytes));
    at_ += name.size();
    const auto known = index_of_.find(name);
    if (known != index_of_.end()) return known->second;
    if (tree_.rules.size() >= Limits::kMaxRules)
      refuse(begin, fmt::format("more than {} rules", Limits::kMaxRules));
    const auto index = static_cast<uint32_t>(tree_.rules.size());
    tree_.rules.push_back({std::string(name), begin});
    index_of_.emplace(name, index);
    return index;
  }

  void rule() {
    const size_t begin = at_;
    if (name_at(at_).empty())
      refuse(at_, fmt::format("{}: expected a rule, as root ::= \"yes\" | \"no\"", shown(at_)));
    const uint32_t index = take_name();
    at_ = after_blanks(at_);
    if (!text_.substr(at_).starts_with("::="))
      refuse(at_, fmt::format("{}: expected ::= after the name of a rule", shown(at_)));
    at_ += std::string_view("::=").size();
    if (tree_.rules[index].body)
      refuse(begin, fmt::format("rule {} is defined twice", tree_.rules[index].name));
    tree_.rules[index].at = begin;
    const NodeId body = alternatives(0);
    tree_.rules[index].body = body;
    if (!at_end() && !next_is_rule())
      refuse(at_, next_is(')') ? "')' without '('" : fmt::format("{}: not expected here", shown(at_)));
  }

  NodeId add(Node node) {
    if (tree_.nodes.size() >= Limits::kMaxNodes)
      refuse(node.at, fmt::format("more than {} elements", Limits::kMaxNodes));
    for (const NodeId part : node.parts) node.height = std::max(node.height, tree_.nodes[part].height);
    tree_.nodes.push_back(std::move(node));
    return static_cast<NodeId>(tree_.nodes.size() - 1);
  }
  // A sequence or alternatives; its only part if it has one.
  NodeId add_list(Kind kind, size_t begin, std::vector<NodeId> parts) {
    if (parts.size() == 1) return parts.front();
    return add({.kind = kind, .at = begin, .parts = std::move(parts)});
  }
  void check_nesting(size_t at, uint32_t levels) const {
    if (levels > Limits::kMaxNesting)
      refuse(at,
             fmt::format("more than {} groups and quantifiers nested in each other", Limits::kMaxNesting));
  }

  NodeId alternatives(uint32_t groups) {
    const size_t begin = at_;
    std::vector<NodeId> parts;
    do {
      skip_space();
      parts.push_back(sequence(groups));
    } while (take('|'));
    return add_list(Kind::kAlternatives, begin, std::move(parts));
  }

  NodeId sequence(uint32_t groups) {
    const size_t begin = at_;
    std::vector<NodeId> parts;
    while (const std::optional<NodeId> one = element(groups)) parts.push_back(repeated(*one));
    return add_list(Kind::kSequence, begin, std::move(parts));
  }

  // nullopt: no element begins here.
  std::optional<NodeId> element(uint32_t groups) {
    const size_t begin = at_;
    if (take('"')) return add({.kind = Kind::kLiteral, .at = begin, .literal = quoted(begin)});
    if (take('[')) return add({.kind = Kind::kClass, .at = begin, .set = bracketed(begin)});
    if (take('.')) return add({.kind = Kind::kClass, .at = begin, .set = {kAnyCharacter}});
    if (take('(')) return group(begin, groups + 1);
    if (at_end() || next_is_rule()) return std::nullopt;
    if (is_of_name(text_[at_])) return add({.kind = Kind::kRule, .at = begin, .rule = take_name()});
    if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos)
      refuse(at_, fmt::format("{}: nothing to repeat before it", shown(at_)));
    if (next_is('<') || next_is('!')) refuse(at_, "tokens, as <think> or <[7]>, are not supported");
    return std::nullopt;
  }

  NodeId group(size_t begin, uint32_t groups) {
    check_nesting(begin, groups);
    const NodeId inside = alternatives(groups);
    if (!take(')')) refuse(at_, fmt::format("{}: expected ')'", shown(at_)));
    check_nesting(begin, ++tree_.nodes[inside].height);
    return inside;
  }

  // The element with the quantifiers after it. Each one repeats all that is before it.
  NodeId repeated(NodeId element) {
    for (;;) {
      skip_space();
      const size_t begin = at_;
      Node node{.kind = Kind::kRepetition, .at = begin, .parts = {element}};
      if (!take_quantifier(node)) return element;
      node.height = tree_.nodes[element].height + 1;
      check_nesting(begin, node.height);
      element = add(std::move(node));
    }
  }

  bool take_quantifier(Node& node) {
    node.most = kNoLimit;
    if (take('*')) return true;
    if (take('{')) {
      take_braces(node);
      return true;
    }
    node.least = 1;
    if (take('+')) return true;
    node.least = 0;
    node.most = 1;
    return take('?');
  }

  void take_braces(Node& node) {
    const size_t begin = at_;
    node.least = number();
    node.most = node.least;
    if (take(',')) {
      at_ = after_blanks(at_);
      node.most = next_is('}') ? kNoLimit : number();
    }
    if (!take('}')) refuse(at_, fmt::format("{}: expected '}}'", shown(at_)));
    if (node.most < node.least) refuse(begin, "numbers in braces out of order");
  }

  uint32_t number() {
    at_ = after_blanks(at_);
    const size_t begin = at_;
    uint32_t value = 0;
    for (; !at_end() && is_digit(text_[at_]); ++at_) {
      value = value * 10 + static_cast<uint32_t>(text_[at_] - '0');
      if (value > Limits::kMaxRepetitions)
        refuse(begin, fmt::format("more than {} repetitions", Limits::kMaxRepetitions));
    }
    if (at_ == begin) refuse(at_, fmt::format("{}: expected a number", shown(at_)));
    at_ = after_blanks(at_);
    return value;
  }

  // Reads the rest of a literal.
  std::string quoted(size_t begin) {
    std::vector<uint8_t> bytes;
    while (!take('"')) {
      if (at_end()) refuse(begin, "a literal without an end; expected '\"'");
      append_utf8(character(), bytes);
    }
    return {bytes.begin(), bytes.end()};
  }

  // Reads the rest of a class.
  CodePointSet bracketed(size_t begin) {
    const bool is_negated = take('^');
    CodePointSet set;
    while (!take(']')) {
      if (at_end()) refuse(begin, "'[' without ']'");
      const size_t first_at = at_;
      const uint32_t first = character();
      const bool is_range = next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (is_range) ++at_;
      const uint32_t last = is_range ? character() : first;
      if (last < first) refuse(first_at, "a range out of order");
      set.push_back({first, last});
    }
    if (set.empty()) refuse(begin, "a class without characters");
    set = normalised(std::move(set));
    if (is_negated) set = complement(set);
    if (set.empty()) refuse(begin, "a class without characters");
    return set;
  }

  uint32_t character() {
    if (take('\\')) return escape(at_ - 1);
    std::string_view rest = text_.substr(at_);
    const uint32_t code_point = take_code_point(rest);
    at_ = text_.size() - rest.size();
    return code_point;
  }

  // Reads the rest of an escape.
  uint32_t escape(size_t begin) {
    if (at_end()) refuse(begin, "'\\' at the end");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hexadecimal(begin, 2);
      case 'u':
        return hexadecimal(begin, 4);
      case 'U':
        return hexadecimal(begin, 8);
      default:
        break;
    }
    if (std::string_view("\\\"[]-^").find(c) != std::string_view::npos) return static_cast<uint8_t>(c);
    refuse(begin,
           fmt::format("{} after '\\'; expected n, r, t, x, u, U, or one of \\ \" [ ] - ^", shown(at_ - 1)));
  }

  uint32_t hexadecimal(size_t begin, size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    constexpr int kBase = 16;
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, kBase);
    if (error != std::errc() || end != text.data() + digits)
      refuse(begin, fmt::format("expected {} hexadecimal digits", digits));
    at_ += digits;
    if (value > kLastCodePoint) refuse(begin, "a character above 10FFFF");
    if (value >= kFirstSurrogate && value <= kLastSurrogate)
      refuse(begin, "a surrogate, which no text contains; write the character with \\U");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool begins_line_ = true;  // only blanks precede at_ on its line; set by skip_space()
  GbnfTree tree_;
  std::map<std::string, uint32_t, std::less<>> index_of_;
};

}  // namespace

void refuse_gbnf(std::string_view text, size_t at, const std::string& problem) {
  const std::string_view before = text.substr(0, at);
  const size_t line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
  const std::string_view of_line = before.substr(before.rfind('\n') + 1);
  const auto is_first_byte = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  const auto column = std::ranges::count_if(of_line, is_first_byte) + 1;
  throw Error(ErrorKind::kUsage, fmt::format("grammar: line {}, column {}: {}", line, column, problem));
}

GbnfTree parse_gbnf(std::string_view text) {
  if (text.size() > Limits::kMaxBytes) {
    throw Error(ErrorKind::kUsage,
                fmt::format("grammar: {} bytes; limit: {}", text.size(), Limits::kMaxBytes));
  }
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_first(text.substr(at));
    if (unit.kind != Utf8Unit::Kind::kValid) refuse_gbnf(text, at, "not UTF-8");
    at += unit.bytes;
  }
  return Parser(text).parse();
}

}  // namespace serval::grammar
