#include "engine/grammar/pattern_parser.h"

#include <algorithm>
#include <optional>
#include <string>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::grammar {
namespace {

constexpr size_t kMaxGraphStates = 4000;
constexpr int kMaxGroups = 64;  // nesting limit of groups
constexpr uint32_t kFirstLowSurrogate = 0xDC00;

constexpr CodePoints kDigits[] = {{'0', '9'}};
constexpr CodePoints kWord[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
constexpr CodePoints kSpaces[] = {{'\t', '\r'}, {' ', ' '}};
// All characters that some engine matches with \s.
constexpr CodePoints kMaybeSpaces[] = {{'\t', '\r'},     {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
                                       {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                       {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
constexpr CodePoints kLineEnds[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
constexpr CodePoints kAscii[] = {{0, 0x7F}};
constexpr CodePoints kAllCodePoints[] = {{0, kLastCodePoint}};

CodePointSet set_of(std::span<const CodePoints> ranges) {
  return {ranges.begin(), ranges.end()};
}

// A part of the graph.
struct Fragment {
  uint32_t start, end;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  PatternGraph parse(PatternPlace place) {
    const uint32_t start = add_state();
    const Fragment all = alternatives(0);
    if (at_ < text_.size()) refuse_pattern("')' without '('");
    const uint32_t end = add_state();
    if (place == PatternPlace::kWhole) {
      edge(start, {{kTextBegin, kTextBegin}}, all.start);
      edge(all.end, {{kTextEnd, kTextEnd}}, end);
    } else {
      edge(start, set_of(kAllCodePoints), start);
      edge(start, {}, all.start);
      edge(all.end, {}, end);
      edge(end, set_of(kAllCodePoints), end);
    }
    graph_.start = start;
    graph_.end = end;
    return std::move(graph_);
  }

 private:
  uint32_t add_state() {
    if (graph_.edges.size() >= kMaxGraphStates) refuse_pattern("too large an expression");
    graph_.edges.emplace_back();
    return static_cast<uint32_t>(graph_.edges.size() - 1);
  }
  void edge(uint32_t from, CodePointSet set, uint32_t to) {
    graph_.edges[from].push_back({std::move(set), to});
  }
  Fragment reading(CodePointSet set) {
    const Fragment f = {add_state(), add_state()};
    if (!set.empty()) edge(f.start, std::move(set), f.end);  // a class without characters matches nothing
    return f;
  }

  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Fragment alternatives(int groups) {
    const Fragment all = {add_state(), add_state()};
    do {
      const Fragment one = sequence(groups);
      edge(all.start, {}, one.start);
      edge(one.end, {}, all.end);
    } while (take('|'));
    return all;
  }

  Fragment sequence(int groups) {
    const uint32_t start = add_state();
    Fragment whole = {start, start};
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      const Fragment part = repeated(groups);
      edge(whole.end, {}, part.start);
      whole.end = part.end;
    }
    return whole;
  }

  struct Repetition {
    uint32_t least, most;
  };
  static constexpr uint32_t kUnlimited = UINT32_MAX;

  std::optional<uint32_t> take_number() {
    uint32_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<uint32_t>(text_[at_] - '0');
      if (value > kMaxRepetitions) refuse_pattern(fmt::format("more than {} repetitions", kMaxRepetitions));
    }
    return at_ > begin ? std::optional(value) : std::nullopt;
  }

  Repetition take_braces() {
    const std::optional<uint32_t> least = take_number();
    if (!least) refuse_pattern("'{' without a number; write \\{ for the character");
    Repetition r = {*least, *least};
    if (take(',')) r.most = take_number().value_or(kUnlimited);
    if (!take('}')) refuse_pattern("'{' without '}'");
    if (r.most < r.least) refuse_pattern("numbers in braces out of order");
    return r;
  }

  Repetition take_quantifier() {
    Repetition r = {1, 1};
    if (take('*')) {
      r = {0, kUnlimited};
    } else if (take('+')) {
      r = {1, kUnlimited};
    } else if (take('?')) {
      r = {0, 1};
    } else if (take('{')) {
      r = take_braces();
    } else {
      return r;
    }
    take('?');
    if (next_is('*') || next_is('+') || next_is('{'))
      refuse_pattern("a quantifier without anything to repeat");
    return r;
  }

  // Parses the atom again for each copy of it that the graph needs.
  Fragment repeated(int groups) {
    const size_t atom_begin = at_;
    const uint32_t start = add_state(), end = add_state();
    Fragment copy = atom(groups);
    const size_t atom_end = at_;
    const Repetition r = take_quantifier();
    const size_t quantifier_end = at_;
    const auto copy_atom = [&] {
      at_ = atom_begin;
      copy = atom(groups);
      at_ = atom_end;
    };
    uint32_t last = start;
    const uint32_t copies = r.most == kUnlimited ? std::max(r.least, 1U) : r.most;
    for (uint32_t i = 0; i < copies; ++i) {
      if (i > 0) copy_atom();
      if (i >= r.least) edge(last, {}, end);
      edge(last, {}, copy.start);
      last = copy.end;
    }
    if (r.most == kUnlimited && copies > 0) edge(copy.end, {}, copy.start);
    edge(last, {}, end);
    at_ = quantifier_end;
    return {start, end};
  }

  Fragment atom(int groups) {
    if (take('(')) return group(groups + 1);
    if (take('[')) return reading(bracketed());
    if (take('.')) return reading(complement(set_of(kLineEnds)));
    if (take('^')) return anchor(kTextBegin);
    if (take('$')) return anchor(kTextEnd);
    if (take('\\')) return reading(escape().set);
    for (const char c : {'*', '+', '?', '{'})
      if (next_is(c)) refuse_pattern("a quantifier without anything to repeat");
    const uint32_t c = character();
    return reading({{c, c}});
  }

  Fragment anchor(uint32_t where) {
    for (const char c : {'*', '+', '?', '{'})
      if (next_is(c)) refuse_pattern("a quantifier without anything to repeat");
    return reading({{where, where}});
  }

  Fragment group(int groups) {
    if (groups > kMaxGroups)
      refuse_pattern(fmt::format("more than {} groups nested in each other", kMaxGroups));
    if (take('?') && !take(':'))
      refuse_pattern("groups that begin with '(?' are not supported, except '(?:'");
    const Fragment inside = alternatives(groups);
    if (!take(')')) refuse_pattern("'(' without ')'");
    return inside;
  }

  // Reads one code point of the UTF-8 pattern.
  uint32_t character() {
    if (at_ >= text_.size()) refuse_pattern("ends too early");
    std::string_view rest = text_.substr(at_);
    const uint32_t code_point = grammar::take_code_point(rest);
    at_ = text_.size() - rest.size();
    return code_point;
  }

  struct Escape {
    CodePointSet set;
    bool is_class;  // such as \d
  };

  uint32_t take_hex(size_t digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = at_ < text_.size() ? text_[at_++] : '\0';
      const std::string_view all = "0123456789abcdef";
      const size_t digit = all.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
      if (digit == std::string_view::npos)
        refuse_pattern(fmt::format("expected {} hexadecimal digits", digits));
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  // Reads the rest after "\\u": four digits, a surrogate pair, or digits in braces.
  uint32_t take_code_point() {
    if (take('{')) {
      const size_t end = text_.find('}', at_);
      constexpr size_t kMostDigits = 6;
      if (end == std::string_view::npos || end == at_ || end - at_ > kMostDigits)
        refuse_pattern("expected 1 to 6 hexadecimal digits in braces");
      const uint32_t value = take_hex(end - at_);
      take('}');
      return checked(value);
    }
    const uint32_t value = take_hex(4);
    const bool is_first = value >= kFirstSurrogate && value < kFirstLowSurrogate;
    if (!is_first || !take("\\u")) return checked(value);
    const uint32_t low = take_hex(4);
    if (low < kFirstLowSurrogate || low > kLastSurrogate) return checked(value);
    constexpr uint32_t kBits = 10, kFirstBeyond = 0x10000;
    return kFirstBeyond + ((value - kFirstSurrogate) << kBits) + (low - kFirstLowSurrogate);
  }
  static uint32_t checked(uint32_t code_point) {
    if (code_point >= kFirstSurrogate && code_point <= kLastSurrogate)
      refuse_pattern("surrogates are not supported");
    if (code_point > kLastCodePoint) refuse_pattern("a code point above 10FFFF");
    return code_point;
  }

  // Reads the rest after a backslash.
  Escape escape() {
    const uint32_t c = character();
    const auto one = [](uint32_t code) { return Escape{{{code, code}}, false}; };
    switch (c) {
      case 'd':
        return {set_of(kDigits), true};
      case 'w':
        return {set_of(kWord), true};
      case 's':
        return {set_of(kSpaces), true};
      case 'D':
        return {intersection(complement(set_of(kDigits)), set_of(kAscii)), true};
      case 'W':
        return {intersection(complement(set_of(kWord)), set_of(kAscii)), true};
      case 'S':
        return {complement(set_of(kMaybeSpaces)), true};
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        if (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
          refuse_pattern("\\0 before a digit is not supported");
        return one(0);
      case 'x':
        return one(take_hex(2));
      case 'u':
        return one(take_code_point());
      default:
        break;
    }
    const bool is_word =
        c < 0x80 && ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
    if (is_word) refuse_pattern(fmt::format("\\{} is not supported", static_cast<char>(c)));
    return one(c);
  }

  // Reads the rest of a class after '['.
  CodePointSet bracketed() {
    const bool negated = take('^');
    bool has_class = false;
    CodePointSet set;
    while (!take(']')) {
      const Escape first = member();
      has_class |= first.is_class;
      const bool is_range = next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        set.insert(set.end(), first.set.begin(), first.set.end());
        continue;
      }
      ++at_;
      const Escape last = member();
      if (first.is_class || last.is_class) refuse_pattern("a range that begins or ends with a class");
      if (last.set[0].first < first.set[0].first) refuse_pattern("a range out of order");
      set.push_back({first.set[0].first, last.set[0].first});
    }
    set = normalised(std::move(set));
    if (!negated) return set;
    return has_class ? intersection(complement(set), set_of(kAscii)) : complement(set);
  }
  Escape member() {
    if (!take('\\')) {
      const uint32_t c = character();
      return {{{c, c}}, false};
    }
    if (take('b')) return {{{'\b', '\b'}}, false};
    if (take('-')) return {{{'-', '-'}}, false};
    return escape();
  }

  std::string_view text_;
  size_t at_ = 0;
  PatternGraph graph_;
};

}  // namespace

void refuse_pattern(const std::string& problem) {
  throw Error(ErrorKind::kUsage, "pattern: " + problem);
}

PatternGraph parse_pattern(std::string_view pattern, PatternPlace place) {
  if (pattern.size() > kMaxPatternBytes)
    refuse_pattern(fmt::format("{} bytes; limit: {}", pattern.size(), kMaxPatternBytes));
  return Parser(pattern).parse(place);
}

}  // namespace serval::grammar
