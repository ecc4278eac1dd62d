#include "engine/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "engine/grammar/configurations.h"
#include "engine/grammar/gbnf_analysis.h"
#include "engine/grammar/gbnf_parser.h"
#include "engine/grammar/json_rules.h"
#include "vm/base/error.h"

namespace serval::grammar {
namespace {

using Node = GbnfTree::Node;
using NodeId = GbnfTree::NodeId;
using Kind = GbnfTree::Kind;

constexpr uint32_t kFirstBeyondAscii = 0x80;
// The characters of TokenTrie::plain_tokens().
constexpr CodePoints kPlain[] = {
    {0x20, 0x21}, {0x23, 0x5B}, {0x5D, kFirstSurrogate - 1}, {kLastSurrogate + 1, kLastCodePoint}};

bool has_all_plain(const CodePointSet& set) {
  return intersection(complement(set), {std::begin(kPlain), std::end(kPlain)}).empty();
}

// Whether more states that read a byte can be reached from a rule's start than Configurations keeps. It would
// drop the others, and the texts that begin with them.
bool is_too_wide(const Grammar& grammar, StateId start) {
  std::vector<StateId> reached = {start};
  std::unordered_set<StateId> seen = {start};
  size_t reading = 0;
  const auto reach = [&](StateId state) {
    if (seen.insert(state).second) reached.push_back(state);
  };
  for (size_t i = 0; i < reached.size(); ++i) {
    const State& state = grammar.state(reached[i]);
    reading += state.bytes.empty() ? 0 : 1;
    if (reading > Configurations::kMaxItems || reached.size() > Configurations::kMaxReached) return true;
    for (const StateId to : state.jumps) reach(to);
    for (const CallEdge& call : state.calls) reach(grammar.start(call.rule));
    if (state.loop && state.loop->most > 0) reach(grammar.start(state.loop->body));
    if (state.loop && state.loop->least == 0) reach(state.loop->exit);
  }
  return false;
}

class Compiler {
 public:
  explicit Compiler(const GbnfTree& tree) : tree_(tree), analysis_(tree), plain_(tree.rules.size()) {}

  const GbnfAnalysis& analysis() const { return analysis_; }

  Grammar compile() {
    for (uint32_t rule = 0; rule < tree_.rules.size(); ++rule) all_of(rule);
    grammar_.set_top(all_of(tree_.root));
    while (!open_.empty()) {
      const Open next = open_.back();
      open_.pop_back();
      add(next.node, next.texts, next.start, next.end);
    }
    grammar_.finish();
    return std::move(grammar_);
  }

  // A node with more alternatives at its beginning than Configurations can follow; nullopt: none.
  std::optional<NodeId> too_wide(const Grammar& grammar) const {
    for (const auto& [key, rule] : rule_of_)
      if (is_too_wide(grammar, grammar.start(rule))) return key.first;
    return std::nullopt;
  }

 private:
  // The body of a loop must not match the empty text: the automaton would follow it without end.
  enum class Texts : uint8_t { kAll, kNotEmpty };
  struct Open {
    NodeId node;
    Texts texts;
    StateId start, end;
  };

  RuleId all_of(uint32_t rule) { return rule_of(*tree_.rules[rule].body, Texts::kAll); }
  // Each node is compiled at most once for each `texts`. Its states are added later, by compile(), because
  // rules refer to each other in cycles.
  RuleId rule_of(NodeId node, Texts texts) {
    if (!analysis_.is_nullable(node)) texts = Texts::kAll;
    const auto key = std::pair(node, texts);
    if (const auto known = rule_of_.find(key); known != rule_of_.end()) return known->second;
    const StateId start = grammar_.add_state(), end = grammar_.add_end();
    const RuleId rule = grammar_.add_rule(start);
    rule_of_[key] = rule;
    open_.push_back({node, texts, start, end});
    return rule;
  }
  // The rule of a node, without another rule around that of a reference or a class.
  RuleId body_of(NodeId id, Texts texts) {
    const Node& node = tree_.nodes[id];
    if (node.kind == Kind::kRule) return rule_of(*tree_.rules[node.rule].body, texts);
    return node.kind == Kind::kClass ? rule_of_class(node.set) : rule_of(id, texts);
  }

  // Adds edges that read a text of the node from `from` to `to`. Adds no edge that leads to `from` or leaves
  // `to`.
  void add(NodeId id, Texts texts, StateId from, StateId to) {
    const Node& node = tree_.nodes[id];
    if (!analysis_.is_nullable(id)) texts = Texts::kAll;
    switch (node.kind) {
      case Kind::kLiteral:
        if (texts == Texts::kAll) add_literal(node.literal, from, to);
        return;
      case Kind::kClass:
        return add_class(node.set, from, to);
      case Kind::kRule:
        return grammar_.call(from, body_of(id, texts), to);
      case Kind::kSequence:
        return texts == Texts::kAll ? add_sequence(node, from, to) : add_some_of_sequence(node, from, to);
      case Kind::kAlternatives:
        return add_alternatives(id, texts, from, to);
      case Kind::kRepetition:
        return add_repetition(node, texts, from, to);
    }
  }

  void add_literal(const std::string& text, StateId from, StateId to) {
    const StateId start = grammar_.add_state();  // literals share states with what begins at their start
    grammar_.jump(from, start);
    grammar_.literal(start, text, to);
  }

  void add_class(const CodePointSet& set, StateId from, StateId to) {
    if (set.back().last >= kFirstBeyondAscii) return grammar_.call(from, rule_of_class(set), to);
    for (const CodePoints& range : set) add_code_points(grammar_, from, range.first, range.last, to);
  }
  RuleId rule_of_class(const CodePointSet& set) {
    std::vector<uint32_t> key;
    for (const CodePoints& range : set) key.insert(key.end(), {range.first, range.last});
    if (const auto known = rule_of_class_.find(key); known != rule_of_class_.end()) return known->second;
    const StateId start = grammar_.add_state(), end = grammar_.add_end();
    for (const CodePoints& range : set) add_code_points(grammar_, start, range.first, range.last, end);
    return rule_of_class_[std::move(key)] = grammar_.add_rule(start);
  }

  void add_sequence(const Node& node, StateId from, StateId to) {
    if (node.parts.empty()) return grammar_.jump(from, to);
    for (size_t i = 0; i < node.parts.size(); ++i) {
      const StateId next = i + 1 < node.parts.size() ? grammar_.add_state() : to;
      add(node.parts[i], Texts::kAll, from, next);
      from = next;
    }
  }
  // The texts of a nullable sequence that are not empty. `none`: nothing is read yet; `some`: the parts so
  // far have read something.
  void add_some_of_sequence(const Node& node, StateId none, StateId to) {
    std::optional<StateId> some;
    for (size_t i = 0; i < node.parts.size(); ++i) {
      const StateId next = i + 1 < node.parts.size() ? grammar_.add_state() : to;
      add(node.parts[i], Texts::kNotEmpty, none, next);
      if (some) add(node.parts[i], Texts::kAll, *some, next);
      const StateId next_none = grammar_.add_state();
      grammar_.jump(none, next_none);
      some = next;
      none = next_none;
    }
  }

  // Literals among the alternatives share the states of their common prefixes.
  void add_alternatives(NodeId id, Texts texts, StateId from, StateId to) {
    constexpr size_t kMaxInPlace = 32;  // more become a rule of their own, whose beginning is checked
    const Node& node = tree_.nodes[id];
    const bool is_body = from == place_of_rule(id, texts);
    if (node.parts.size() > kMaxInPlace && !is_body) return grammar_.call(from, rule_of(id, texts), to);
    std::optional<StateId> literals;
    for (const NodeId part : node.parts) {
      const Node& alternative = tree_.nodes[part];
      if (alternative.kind != Kind::kLiteral) {
        add(part, texts, from, to);
      } else if (!alternative.literal.empty() || texts == Texts::kAll) {
        if (!literals) grammar_.jump(from, *(literals = grammar_.add_state()));
        grammar_.literal(*literals, alternative.literal, to);
      }
    }
  }
  std::optional<StateId> place_of_rule(NodeId id, Texts texts) const {
    const auto known = rule_of_.find({id, texts});
    return known == rule_of_.end() ? std::nullopt : std::optional(grammar_.start(known->second));
  }

  void add_repetition(const Node& node, Texts texts, StateId from, StateId to) {
    const NodeId part = node.parts.front();
    // As many of them as wanted may be empty.
    uint32_t least = analysis_.is_nullable(part) ? 0 : node.least;
    if (least == 0 && texts == Texts::kNotEmpty) least = 1;
    if (node.most == 0) {
      if (texts == Texts::kAll) grammar_.jump(from, to);
      return;
    }
    if (node.most == 1) {
      add(part, Texts::kNotEmpty, from, to);
      if (least == 0) grammar_.jump(from, to);
      return;
    }
    const StateId start = grammar_.add_state();
    grammar_.jump(from, start);
    grammar_.loop(start, {body_of(part, Texts::kNotEmpty), least, node.most, to, reads_plain(part)});
  }

  // Whether one character of the node's texts may be any that needs no escape in a JSON string.
  bool reads_plain(NodeId id) {
    const Node& node = tree_.nodes[id];
    if (node.kind == Kind::kClass) return has_all_plain(node.set);
    if (node.kind == Kind::kAlternatives)
      return std::ranges::any_of(node.parts, [this](NodeId part) { return reads_plain(part); });
    if (node.kind != Kind::kRule) return false;
    if (!plain_[node.rule]) plain_[node.rule] = reads_plain(*tree_.rules[node.rule].body);
    return *plain_[node.rule];
  }

  const GbnfTree& tree_;
  const GbnfAnalysis analysis_;
  Grammar grammar_;
  std::map<std::pair<NodeId, Texts>, RuleId> rule_of_;
  std::map<std::vector<uint32_t>, RuleId> rule_of_class_;
  std::vector<Open> open_;
  std::vector<std::optional<bool>> plain_;  // reads_plain() of each rule's body
};

// "expr -> term -> expr"
std::string shown_cycle(const GbnfTree& tree, const std::vector<uint32_t>& cycle) {
  constexpr size_t kMostShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kMostShown); ++i) text += tree.rules[cycle[i]].name + " -> ";
  return text + (cycle.size() > kMostShown ? "... -> " : "") + tree.rules[cycle.front()].name;
}

[[noreturn]] void refuse_rule(std::string_view text, const GbnfTree::Rule& rule, const std::string& problem) {
  refuse_gbnf(text, rule.at, fmt::format("rule {} {}", rule.name, problem));
}

Grammar compile(std::string_view text, const GbnfTree& tree, Compiler& compiler) {
  try {
    return compiler.compile();
  } catch (const Error& error) {
    refuse_rule(text, tree.rules[tree.root], fmt::format("cannot be compiled: {}", error.what()));
  }
}

}  // namespace

Grammar compile_gbnf(std::string_view text) {
  const GbnfTree tree = parse_gbnf(text);
  Compiler compiler(tree);
  if (const auto cycle = compiler.analysis().left_recursion()) {
    refuse_rule(text, tree.rules[cycle->front()],
                fmt::format("begins with itself ({}), which is not supported", shown_cycle(tree, *cycle)));
  }
  Grammar grammar = compile(text, tree, compiler);
  if (const auto node = compiler.too_wide(grammar)) {
    refuse_gbnf(text, tree.nodes[*node].at,
                fmt::format("more than {} alternatives that begin here and are not literals of one list",
                            Configurations::kMaxItems));
  }
  return grammar;
}

}  // namespace serval::grammar
