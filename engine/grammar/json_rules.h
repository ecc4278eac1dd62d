// The rules of JSON text (RFC 8259), as far as one writes it: spaces only one at a time or after a new line,
// numbers that any reader can hold, no pairs of surrogates in escapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

// Adds rules to a grammar as they are asked for, each once. Not thread-safe.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  RuleId space();      // nothing, " ", or a new line with up to kMaxIndent spaces or tabs
  RuleId character();  // of a string, as itself or escaped
  RuleId string(uint32_t least, uint32_t most);  // of so many characters
  RuleId integer();
  RuleId number();
  RuleId boolean();
  RuleId null();
  // Any value, object or array; nested up to kMaxNesting deep.
  RuleId any_value() { return any_value(0); }
  RuleId any_object() { return any_object(0); }
  RuleId any_array() { return any_array(0); }

  // A key that is none of `others`, in quotes.
  RuleId key_but(std::span<const std::string> others);
  // From `state` on, `separator` with the spaces around it; returns where it ends.
  StateId punctuation(StateId state, char separator);
  // Reads the rule, then goes on at a new state.
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

// Adds byte edges for the UTF-8 of all code points of the range.
void add_code_points(Grammar& grammar, StateId from, uint32_t first, uint32_t last, StateId to);

}  // namespace serval::grammar
