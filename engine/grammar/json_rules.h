// Grammar rules for JSON text (RFC 8259), restricted to what a writer needs: single spaces or indented lines,
// numbers that a double holds exactly, no surrogate pairs in escapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

// Adds each rule to the grammar on its first use. Not thread-safe.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  RuleId space();      // nothing, " ", or a new line with up to kMaxIndent spaces or tabs
  RuleId character();  // a character of a string, literal or escaped
  RuleId string(uint32_t least, uint32_t most);  // `least` to `most` characters in quotes
  RuleId integer();
  RuleId number();
  RuleId boolean();
  RuleId null();
  // Any value, object or array, nested at most kMaxNesting deep.
  RuleId any_value() { return any_value(0); }
  RuleId any_object() { return any_object(0); }
  RuleId any_array() { return any_array(0); }

  // A key in quotes that is not in `others`.
  RuleId key_except(std::span<const std::string> others);
  // Adds `separator` and the spaces around it after `state`; returns the state after them.
  StateId punctuation(StateId state, char separator);
  // Calls `rule` from `from`; returns a new state after the call.
  StateId call(StateId from, RuleId rule);

  Grammar& grammar() { return grammar_; }

 private:
  static constexpr uint32_t kMaxNesting = 64;
  static constexpr uint32_t kMaxIndent = 20;

  RuleId any_value(uint32_t level);
  RuleId any_object(uint32_t level);
  RuleId any_array(uint32_t level);
  RuleId listed(char open, char close, RuleId element);
  RuleId word(std::optional<RuleId>& known, std::span<const std::string_view> words);
  RuleId digits(uint32_t least, uint32_t most);
  void integer_part(StateId from, StateId to);

  Grammar& grammar_;
  std::optional<RuleId> space_, character_, integer_, number_, boolean_, null_, digit_, any_string_;
  std::map<uint32_t, RuleId> values_, objects_, arrays_;  // by level
};

// Adds byte edges for the UTF-8 of the code points `first` to `last`, without surrogates.
void add_code_points(Grammar& grammar, StateId from, uint32_t first, uint32_t last, StateId to);

}  // namespace serval::grammar
