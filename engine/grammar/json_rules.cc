#include "engine/grammar/json_rules.h"

#include <algorithm>

#include "engine/grammar/utf8_ranges.h"

namespace serval::grammar {
namespace {

// A double holds 15 digits exactly, and 10^±99 is in its range.
constexpr uint32_t kIntegerDigits = 15, kFractionDigits = 15, kExponentDigits = 2;

void add_hex_digit(Grammar& g, StateId from, StateId to) {
  g.byte(from, '0', '9', to);
  g.byte(from, 'a', 'f', to);
  g.byte(from, 'A', 'F', to);
}

// The four hexadecimal digits after "\u", except those of surrogates.
void add_escaped_unit(Grammar& g, StateId from, StateId to) {
  const StateId any = g.add_state(), after_d = g.add_state(), third = g.add_state(), fourth = g.add_state();
  g.byte(from, '0', '9', any);
  for (const auto& [first, last] : {std::pair('a', 'c'), {'e', 'f'}, {'A', 'C'}, {'E', 'F'}})
    g.byte(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), any);
  for (const uint8_t d : {'d', 'D'}) g.byte(from, d, d, after_d);
  g.byte(after_d, '0', '7', third);
  add_hex_digit(g, any, third);
  add_hex_digit(g, third, fourth);
  add_hex_digit(g, fourth, to);
}

void add_escape(Grammar& g, StateId from, StateId to) {
  const StateId escaped = g.add_state(), unit = g.add_state();
  g.byte(from, '\\', '\\', escaped);
  for (const char c : std::string_view("\"\\/bfnrt"))
    g.byte(escaped, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  g.byte(escaped, 'u', 'u', unit);
  add_escaped_unit(g, unit, to);
}

// ASCII characters that need no escape in a string: all except quotes, backslashes and control characters.
constexpr CodePoints kPlainAscii[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7F}};

}  // namespace

void add_code_points(Grammar& grammar, StateId from, uint32_t first, uint32_t last, StateId to) {
  for (const Utf8Sequence& sequence : utf8_sequences({first, last})) {
    StateId state = from;
    for (size_t i = 0; i < sequence.bytes().size(); ++i) {
      const StateId next = i + 1 == sequence.bytes().size() ? to : grammar.add_state();
      grammar.byte(state, sequence.bytes()[i].first, sequence.bytes()[i].last, next);
      state = next;
    }
  }
}

StateId JsonRules::call(StateId from, RuleId rule) {
  const StateId to = grammar_.add_state();
  grammar_.call(from, rule, to);
  return to;
}

StateId JsonRules::punctuation(StateId state, char separator) {
  const auto byte = static_cast<uint8_t>(separator);
  const StateId before = separator == ':' || separator == ',' ? call(state, space()) : state;
  const StateId after = grammar_.add_state();
  grammar_.byte(before, byte, byte, after);
  return call(after, space());
}

RuleId JsonRules::space() {
  if (space_) return *space_;
  const StateId start = grammar_.add_state(), end = grammar_.add_end();
  const StateId indent = grammar_.add_state(), blank = grammar_.add_state();
  grammar_.accept(start);
  grammar_.byte(start, ' ', ' ', end);
  grammar_.byte(start, '\n', '\n', indent);
  grammar_.byte(blank, ' ', ' ', end);
  grammar_.byte(blank, '\t', '\t', end);
  grammar_.loop(indent, {grammar_.add_rule(blank), 0, kMaxIndent, end, false});
  return *(space_ = grammar_.add_rule(start));
}

RuleId JsonRules::character() {
  if (character_) return *character_;
  const StateId start = grammar_.add_state(), end = grammar_.add_end();
  for (const CodePoints& range : kPlainAscii) add_code_points(grammar_, start, range.first, range.last, end);
  add_code_points(grammar_, start, 0x80, kLastCodePoint, end);
  add_escape(grammar_, start, end);
  return *(character_ = grammar_.add_rule(start));
}

RuleId JsonRules::string(uint32_t least, uint32_t most) {
  constexpr bool kIsText = true;
  const bool is_any = least == 0 && most == kNoLimit;
  if (is_any && any_string_) return *any_string_;
  const StateId start = grammar_.add_state(), body = grammar_.add_state(), closing = grammar_.add_state();
  grammar_.byte(start, '"', '"', body);
  grammar_.loop(body, {character(), least, most, closing, kIsText});
  grammar_.byte(closing, '"', '"', grammar_.add_end());
  const RuleId rule = grammar_.add_rule(start);
  if (is_any) any_string_ = rule;
  return rule;
}

RuleId JsonRules::digits(uint32_t least, uint32_t most) {
  if (!digit_) {
    const StateId digit = grammar_.add_state();
    grammar_.byte(digit, '0', '9', grammar_.add_end());
    digit_ = grammar_.add_rule(digit);
  }
  const StateId start = grammar_.add_state();
  grammar_.loop(start, {*digit_, least, most, grammar_.add_end(), false});
  return grammar_.add_rule(start);
}

// An optional sign, then 0 or digits that do not begin with 0.
void JsonRules::integer_part(StateId from, StateId to) {
  const StateId unsigned_part = grammar_.add_state(), more = grammar_.add_state();
  grammar_.byte(from, '-', '-', unsigned_part);
  for (const StateId state : {from, unsigned_part}) {
    grammar_.byte(state, '0', '0', to);
    grammar_.byte(state, '1', '9', more);
  }
  grammar_.call(more, digits(0, kIntegerDigits - 1), to);
}

RuleId JsonRules::integer() {
  if (integer_) return *integer_;
  const StateId start = grammar_.add_state();
  integer_part(start, grammar_.add_end());
  return *(integer_ = grammar_.add_rule(start));
}

RuleId JsonRules::number() {
  if (number_) return *number_;
  const StateId start = grammar_.add_state(), whole = grammar_.add_end(), point = grammar_.add_state();
  const StateId scaled = grammar_.add_end(), e = grammar_.add_state(), sign = grammar_.add_state();
  integer_part(start, whole);
  grammar_.byte(whole, '.', '.', point);
  grammar_.call(point, digits(1, kFractionDigits), scaled);
  for (const StateId state : {whole, scaled}) {
    for (const uint8_t letter : {'e', 'E'}) grammar_.byte(state, letter, letter, e);
  }
  grammar_.byte(e, '+', '+', sign);
  grammar_.byte(e, '-', '-', sign);
  grammar_.jump(e, sign);
  grammar_.call(sign, digits(1, kExponentDigits), grammar_.add_end());
  return *(number_ = grammar_.add_rule(start));
}

RuleId JsonRules::word(std::optional<RuleId>& known, std::span<const std::string_view> words) {
  if (known) return *known;
  const StateId start = grammar_.add_state(), end = grammar_.add_end();
  for (const std::string_view w : words) grammar_.literal(start, w, end);
  return *(known = grammar_.add_rule(start));
}

RuleId JsonRules::boolean() {
  constexpr std::string_view kWords[] = {"true", "false"};
  return word(boolean_, kWords);
}

RuleId JsonRules::null() {
  constexpr std::string_view kWords[] = {"null"};
  return word(null_, kWords);
}

RuleId JsonRules::any_value(uint32_t level) {
  if (const auto known = values_.find(level); known != values_.end()) return known->second;
  const StateId start = grammar_.add_state(), end = grammar_.add_end();
  const RuleId rule = grammar_.add_rule(start);
  values_[level] = rule;
  if (level < kMaxNesting) {
    grammar_.call(start, any_object(level), end);
    grammar_.call(start, any_array(level), end);
  }
  for (const RuleId scalar : {string(0, kNoLimit), number(), boolean(), null()})
    grammar_.call(start, scalar, end);
  return rule;
}

// Any number of elements in brackets, separated by commas.
RuleId JsonRules::listed(char open, char close, RuleId element) {
  const StateId start = grammar_.add_state(), comma = grammar_.add_state(), end = grammar_.add_end();
  const StateId first = punctuation(start, open);
  const auto closing = static_cast<uint8_t>(close);
  const StateId after_first = call(first, element);
  grammar_.byte(first, closing, closing, end);
  const StateId next = punctuation(comma, ',');
  grammar_.call(next, element, grammar_.add_end());
  const StateId last = grammar_.add_state();
  grammar_.loop(after_first, {grammar_.add_rule(comma), 0, kNoLimit, last, false});
  grammar_.byte(call(last, space()), closing, closing, end);
  return grammar_.add_rule(start);
}

RuleId JsonRules::any_object(uint32_t level) {
  if (const auto known = objects_.find(level); known != objects_.end()) return known->second;
  const StateId member = grammar_.add_state();
  const RuleId rule_of_member = grammar_.add_rule(member);
  const RuleId rule = listed('{', '}', rule_of_member);
  objects_[level] = rule;
  const StateId value = punctuation(call(member, string(0, kNoLimit)), ':');
  grammar_.call(value, any_value(level + 1), grammar_.add_end());
  return rule;
}

RuleId JsonRules::any_array(uint32_t level) {
  if (const auto known = arrays_.find(level); known != arrays_.end()) return known->second;
  const StateId element = grammar_.add_state();
  const RuleId rule = listed('[', ']', grammar_.add_rule(element));
  arrays_[level] = rule;
  grammar_.call(element, any_value(level + 1), grammar_.add_end());
  return rule;
}

namespace {

// Adds states for all keys except given ones: a trie of the given keys' bytes, with edges to any other text.
class KeyExcept {
 public:
  KeyExcept(Grammar& grammar, RuleId character, StateId end) : grammar_(grammar), end_(end) {
    any_ = grammar.add_state();
    const StateId closing = grammar.add_state();
    grammar.loop(any_, {character, 0, kNoLimit, closing, true});
    grammar.byte(closing, '"', '"', end);
  }

  // Adds the edges of the trie's node `from`. `keys` are the sorted keys below it, which share their first
  // `depth` bytes. `at`: the UTF-8 state after these bytes.
  void add(StateId from, std::span<const std::string> keys, size_t depth, Utf8State at) {
    const bool is_key = !keys.empty() && keys.front().size() == depth;
    if (!is_key && at == Utf8State::kBoundary) grammar_.byte(from, '"', '"', end_);
    std::span<const std::string> rest = is_key ? keys.subspan(1) : keys;
    std::vector<bool> taken(256);
    while (!rest.empty()) {
      const auto byte = static_cast<uint8_t>(rest.front()[depth]);
      const auto other = std::ranges::find_if(
          rest, [&](const std::string& key) { return static_cast<uint8_t>(key[depth]) != byte; });
      const auto same = static_cast<size_t>(other - rest.begin());
      taken[byte] = true;
      // Before keys differ, characters are written without escapes, so a key that needs an escape cannot
      // occur.
      if (stands_for_itself(byte)) {
        const StateId next = grammar_.add_state();
        grammar_.byte(from, byte, byte, next);
        add(next, rest.first(same), depth + 1, utf8_step(at, byte));
      }
      rest = rest.subspan(same);
    }
    if (at == Utf8State::kBoundary) add_other_characters(from, taken);
  }

 private:
  static bool stands_for_itself(uint8_t byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }

  // Adds edges for all characters with which none of the keys continues. Escapes are not allowed: they could
  // spell one of the keys. Characters beyond ASCII are allowed only if no key continues with one.
  void add_other_characters(StateId from, const std::vector<bool>& taken) {
    constexpr size_t kFirstBeyondAscii = 0x80;
    const bool only_ascii =
        std::none_of(taken.begin() + kFirstBeyondAscii, taken.end(), [](bool t) { return t; });
    for (uint32_t c = 0; c < kFirstBeyondAscii; ++c) {
      const auto byte = static_cast<uint8_t>(c);
      if (stands_for_itself(byte) && !taken[byte]) grammar_.byte(from, byte, byte, any_);
    }
    if (only_ascii) add_code_points(grammar_, from, kFirstBeyondAscii, kLastCodePoint, any_);
  }

  Grammar& grammar_;
  StateId end_, any_;
};

}  // namespace

RuleId JsonRules::key_except(std::span<const std::string> others) {
  if (others.empty()) return string(0, kNoLimit);
  std::vector<std::string> keys(others.begin(), others.end());
  std::ranges::sort(keys);
  const StateId start = grammar_.add_state(), first = grammar_.add_state(), end = grammar_.add_end();
  grammar_.byte(start, '"', '"', first);
  KeyExcept(grammar_, character(), end).add(first, keys, 0, Utf8State::kBoundary);
  return grammar_.add_rule(start);
}

}  // namespace serval::grammar
