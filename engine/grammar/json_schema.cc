#include "engine/grammar/json_schema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "engine/grammar/json_rules.h"
#include "engine/grammar/number_rules.h"
#include "engine/grammar/schema_parts.h"
#include "engine/grammar/schema_text.h"
#include "engine/grammar/string_rules.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {
namespace {

using Json = SchemaJson;

constexpr size_t kMaxKeyBytes = 256;
// Nesting limit of the schema's text: each nested schema needs two levels, its own and one of the enclosing
// schema ("properties": {…}).
constexpr int kMaxTextDepth = 2 * kMaxSchemaDepth + 8;

class Compiler {
 public:
  explicit Compiler(const Json& root) : root_(root), schemas_(root), rules_(grammar_), numbers_(rules_) {}

  Grammar compile() {
    grammar_.set_top(rule_of(schemas_.parts_of(root_, SchemaPath()), SchemaPath()));
    grammar_.finish();
    return std::move(grammar_);
  }

 private:
  // The rule for values that are valid under all parts. Each set of parts is compiled once, so that a schema
  // may refer to itself.
  RuleId rule_of(const SchemaParts& parts, const SchemaPath& path) {
    if (parts.empty()) return rules_.any_value();
    const SchemaPartsKey key = key_of(parts);
    if (const auto known = rule_of_.find(key); known != rule_of_.end()) return known->second;
    if (++depth_ > kMaxSchemaDepth)
      path.refuse(fmt::format("more than {} schemas nested in each other", kMaxSchemaDepth));
    const StateId start = grammar_.add_state();
    const RuleId rule = grammar_.add_rule(start);
    rule_of_[key] = rule;
    fill(parts, path, start);
    --depth_;
    return rule;
  }

  void fill(const SchemaParts& parts, const SchemaPath& path, StateId start) {
    const StateId end = grammar_.add_end();
    if (const auto alternatives = schemas_.alternatives_of(parts)) {
      check_exclusive(*alternatives);
      for (size_t i = 0; i < alternatives->parts.size(); ++i)
        grammar_.call(start, rule_of(alternatives->parts[i], alternatives->path / i), end);
      return;
    }
    const std::vector<Type> types = schemas_.types_of(parts);
    if (const auto values = schemas_.listed_values(parts)) {
      const bool as_integers = types == std::vector{Type::kInteger};
      for (const Json& value : *values) grammar_.literal(start, spelling_of(value, as_integers), end);
      return;
    }
    for (const Type type : types) grammar_.call(start, rule_of_type(type, parts, path), end);
  }

  // The grammar allows a value of each alternative. For `oneOf`, no value may be valid under two of them.
  void check_exclusive(const Alternatives& alternatives) {
    if (!alternatives.exclusive) return;
    for (size_t i = 0; i < alternatives.alone.size(); ++i) {
      for (size_t k = i + 1; k < alternatives.alone.size(); ++k) {
        if (schemas_.are_disjoint(alternatives.alone[i], alternatives.alone[k])) continue;
        alternatives.path.refuse(fmt::format(
            "a value may be valid under both element {} and {}; expected elements of different types, or "
            "objects with different values of a required property or of the one that `discriminator` names",
            i, k));
      }
    }
  }

  RuleId rule_of_type(Type type, const SchemaParts& parts, const SchemaPath& path) {
    switch (type) {
      case Type::kObject:
        return object(parts, path);
      case Type::kArray:
        return array(parts, path);
      case Type::kString:
        return string(parts, path);
      case Type::kNumber:
      case Type::kInteger:
        return number(type, parts, path);
      case Type::kBoolean:
        return rules_.boolean();
      case Type::kNull:
        break;
    }
    return rules_.null();
  }

  RuleId number(Type type, const SchemaParts& parts, const SchemaPath& path) {
    NumberLimits limits = schemas_.number_limits(parts);
    limits.integer = type == Type::kInteger;
    if (!limits.any()) return limits.integer ? rules_.integer() : rules_.number();
    try {
      return numbers_.rule(limits);
    } catch (const Error& error) {
      path.refuse(error.what());
    }
  }

  RuleId string(const SchemaParts& parts, const SchemaPath& path) {
    const Schemas::Counts counts = schemas_.counts_of(parts, "minLength", "maxLength");
    const std::optional<PatternAutomaton> pattern = schemas_.pattern_of(parts);
    if (!pattern) return rules_.string(counts.least, counts.most);
    try {
      return pattern_string(rules_, *pattern, counts.least, counts.most);
    } catch (const Error& error) {
      path.refuse(error.what());
    }
  }

  // An element of a list in brackets.
  struct Element {
    RuleId rule;
    bool required;
  };
  // Further elements, `least` to `most` of them.
  struct More {
    RuleId rule;
    uint32_t least, most;
  };

  // A list in brackets. Uses two chains of states, because an element needs a comma before it only if another
  // element precedes it: `empty` before the first element, `written` after it.
  RuleId listed(char open, char close, const std::vector<Element>& elements,
                const std::optional<More>& more) {
    const StateId start = grammar_.add_state(), end = grammar_.add_end();
    StateId empty = rules_.punctuation(start, open), written = grammar_.add_state();
    for (const Element& element : elements) {
      const StateId next_empty = grammar_.add_state(), next = grammar_.add_state();
      grammar_.call(empty, element.rule, next);
      grammar_.call(rules_.punctuation(written, ','), element.rule, next);
      if (!element.required) {
        grammar_.jump(empty, next_empty);
        grammar_.jump(written, next);
      }
      empty = next_empty;
      written = next;
    }
    if (more) std::tie(empty, written) = add_more(*more, empty, written);
    const auto closing = static_cast<uint8_t>(close);
    grammar_.byte(empty, closing, closing, end);
    grammar_.byte(rules_.call(written, rules_.space()), closing, closing, end);
    return grammar_.add_rule(start);
  }

  std::pair<StateId, StateId> add_more(const More& more, StateId empty, StateId written) {
    const StateId comma = grammar_.add_state(), next = grammar_.add_state(),
                  next_empty = grammar_.add_state();
    grammar_.call(rules_.punctuation(comma, ','), more.rule, grammar_.add_end());
    const RuleId rule = grammar_.add_rule(comma);
    const auto repeat = [&](StateId from, uint32_t done) {
      const uint32_t least = more.least - std::min(more.least, done);
      const uint32_t most = more.most == kNoLimit ? kNoLimit : more.most - done;
      const StateId loop = grammar_.add_state();
      grammar_.jump(from, loop);
      grammar_.loop(loop, {rule, least, most, next, false});
    };
    repeat(written, 0);
    if (more.most > 0) repeat(rules_.call(empty, more.rule), 1);
    if (more.least == 0) grammar_.jump(empty, next_empty);
    return {next_empty, next};
  }

  RuleId array(const SchemaParts& parts, const SchemaPath& path) {
    const Schemas::Counts counts = schemas_.counts_of(parts, "minItems", "maxItems");
    std::vector<Element> elements;
    const size_t prefix = schemas_.prefix_items(parts);
    for (size_t i = 0; i < prefix; ++i) {
      constexpr bool kRequired = true;
      elements.push_back({rule_of(schemas_.item(parts, i), path / "prefixItems" / i), kRequired});
    }
    const auto listed_items = static_cast<uint32_t>(prefix);
    if (counts.most < listed_items) path.refuse("maxItems is less than the number of prefixItems");
    const bool has_items =
        std::ranges::any_of(parts, [](const SchemaPart& part) { return part.find("items") != nullptr; });
    std::optional<More> more;
    if (listed_items == 0 || has_items || counts.least > listed_items) {
      more = More{rule_of(schemas_.item(parts, prefix), path / "items"),
                  counts.least - std::min(counts.least, listed_items),
                  counts.most == kNoLimit ? kNoLimit : counts.most - listed_items};
    }
    return listed('[', ']', elements, more);
  }

  RuleId member(RuleId key, RuleId value) {
    const StateId start = grammar_.add_state();
    grammar_.call(rules_.punctuation(rules_.call(start, key), ':'), value, grammar_.add_end());
    return grammar_.add_rule(start);
  }
  RuleId key(const std::string& name) {
    const StateId start = grammar_.add_state();
    grammar_.literal(start, Json(name).dump(), grammar_.add_end());
    return grammar_.add_rule(start);
  }

  RuleId object(const SchemaParts& parts, const SchemaPath& path) {
    const auto has_object_keyword = [](const SchemaPart& part) {
      return part.find("properties") || part.find("additionalProperties") || part.find("required");
    };
    if (std::ranges::none_of(parts, has_object_keyword)) return rules_.any_object();
    const std::vector<std::string> required = schemas_.required_of(parts);
    std::vector<std::string> names = schemas_.properties_of(parts);
    for (const std::string& name : required)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    std::vector<Element> elements;
    for (const std::string& name : names) {
      if (name.size() > kMaxKeyBytes)
        path.refuse(fmt::format("a property's name of {} bytes; limit: {}", name.size(), kMaxKeyBytes));
      const RuleId value = rule_of(schemas_.property(parts, name), path / "properties" / name);
      const bool is_required = std::ranges::find(required, name) != required.end();
      elements.push_back({member(key(name), value), is_required});
    }
    std::optional<More> more;
    if (const auto others = schemas_.other_properties(parts)) {
      const RuleId value = rule_of(*others, path / "additionalProperties");
      more = More{member(rules_.key_except(names), value), 0, kNoLimit};
    }
    return listed('{', '}', elements, more);
  }

  const Json& root_;
  Schemas schemas_;
  Grammar grammar_;
  JsonRules rules_;
  NumberRules numbers_;
  std::map<SchemaPartsKey, RuleId> rule_of_;
  int depth_ = 0;
};

}  // namespace

Grammar compile_json_schema(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    throw Error(ErrorKind::kUsage,
                fmt::format("json_schema: {} bytes; limit: {}", schema.size(), kMaxSchemaBytes));
  }
  try {
    parse_json_text(schema, "json_schema", kMaxTextDepth);  // checks syntax, nesting and repeated keys
    const Json root = parse_schema_text(schema);
    return Compiler(root).compile();
  } catch (const Error& error) {
    const std::string line = error.what();
    const bool is_named = line.starts_with("json_schema: ");
    throw Error(ErrorKind::kUsage, is_named ? line : "json_schema: " + line);
  }
}

Grammar json_object_grammar() {
  Grammar grammar;
  JsonRules rules(grammar);
  grammar.set_top(rules.any_object());
  grammar.finish();
  return grammar;
}

}  // namespace serval::grammar
