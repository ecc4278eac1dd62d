// Parses a grammar in GBNF, the notation of llama.cpp (its page grammars/README.md), into a tree.
// docs/grammars.md describes the notation as it is read here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/code_point_set.h"
#include "engine/grammar/grammar.h"

namespace serval::grammar {

struct GbnfLimits {
  static constexpr size_t kMaxBytes = size_t{256} << 10;
  static constexpr size_t kMaxRules = 2000;
  static constexpr size_t kMaxNodes = 50'000;
  static constexpr size_t kMaxNameBytes = 128;
  static constexpr uint32_t kMaxNesting = 64;  // of groups and quantifiers
  static constexpr uint32_t kMaxRepetitions = 100'000;
};

struct GbnfTree {
  using NodeId = uint32_t;
  enum class Kind : uint8_t { kLiteral, kClass, kRule, kSequence, kAlternatives, kRepetition };
  struct Node {
    Kind kind;
    size_t at;                       // offset in the text
    std::string literal = {};        // kLiteral: UTF-8; may be empty
    CodePointSet set = {};           // kClass: not empty
    uint32_t rule = 0;               // kRule: index in `rules`
    std::vector<NodeId> parts = {};  // kSequence (may be empty), kAlternatives, kRepetition (one)
    uint32_t least = 0, most = 0;    // kRepetition; most: kNoLimit, or at least `least`
    uint32_t height = 0;             // levels of groups and quantifiers in it
  };
  struct Rule {
    std::string name;
    size_t at;  // offset of its definition, or of its first use
    std::optional<NodeId> body = {};
  };
  std::vector<Node> nodes;  // the parts of a node precede it
  std::vector<Rule> rules;  // all have a body
  uint32_t root = 0;        // index in `rules`
};

// Throws Error(kUsage) as refuse_gbnf() does for invalid syntax, for rules that are undefined or defined
// twice, and beyond the limits, before memory is allocated for what is too large.
GbnfTree parse_gbnf(std::string_view text);

// Throws Error(kUsage): "grammar: line 3, column 7: PROBLEM". Columns count characters.
[[noreturn]] void refuse_gbnf(std::string_view text, size_t at, const std::string& problem);

}  // namespace serval::grammar
