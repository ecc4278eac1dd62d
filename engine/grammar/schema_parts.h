// Schemas that a value must be valid under together: what `allOf`, a reference with something beside it and
// the alternative of an `anyOf` come to.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/grammar/number_rules.h"
#include "engine/grammar/pattern.h"
#include "engine/grammar/schema_path.h"
#include "engine/grammar/schema_text.h"

namespace serval::grammar {

inline constexpr int kMaxSchemaDepth = 128;  // references and subschemas inside each other

enum class Type : uint8_t { kObject, kArray, kString, kNumber, kInteger, kBoolean, kNull };

struct SchemaPart {
  const SchemaJson* schema;  // an object, or false
  SchemaPath path;
  uint8_t expanded = 0;  // bits of `anyOf` and `oneOf`, for which one alternative is among the parts

  const SchemaJson* find(const char* keyword) const;
};

// No part twice; none: any value is valid.
using SchemaParts = std::vector<SchemaPart>;
// By which equal ones are known.
using SchemaPartsKey = std::vector<std::pair<const SchemaJson*, uint8_t>>;
SchemaPartsKey key_of(const SchemaParts& parts);

// A list of schemas of which one must hold.
struct Alternatives {
  std::vector<SchemaParts> parts;  // of each, with what is beside it
  std::vector<SchemaParts> alone;
  SchemaPath path;
  bool exclusive = false;  // `oneOf`: no value is valid under two of them
  std::string discriminator = {};
  const SchemaJson* mapping = nullptr;
};

// Reads the schemas of one text. Every function throws Error(kUsage) for what is not supported, by name. Not
// thread-safe.
class Schemas {
 public:
  explicit Schemas(const SchemaJson& root) : root_(root) {}

  // With what references and `allOf` lead to, in this order.
  SchemaParts parts_of(const SchemaJson& schema, const SchemaPath& path);
  // Of the first `anyOf` or `oneOf` that is not expanded.
  std::optional<Alternatives> alternatives_of(const SchemaParts& parts);

  // Those that `type` names in all parts; where none does, the one that another keyword is about, else all.
  std::vector<Type> types_of(const SchemaParts& parts);
  // Values of `enum` and `const` that are valid under all parts; none where there is no such keyword.
  std::optional<std::vector<SchemaJson>> listed_values(const SchemaParts& parts);

  struct Counts {
    uint32_t least, most;
  };
  Counts counts_of(const SchemaParts& parts, const char* least, const char* most);
  NumberLimits number_limits(const SchemaParts& parts);
  // Of `pattern` and `format`; none where there is neither.
  std::optional<PatternAutomaton> pattern_of(const SchemaParts& parts);

  std::vector<std::string> properties_of(const SchemaParts& parts);  // in their order
  std::vector<std::string> required_of(const SchemaParts& parts);
  SchemaParts property(const SchemaParts& parts, const std::string& name);
  // Of properties that are not named; none where none may be written.
  std::optional<SchemaParts> other_properties(const SchemaParts& parts);
  size_t prefix_items(const SchemaParts& parts);
  SchemaParts item(const SchemaParts& parts, size_t index);  // beyond prefix_items(): of all others

  bool is_valid(const SchemaJson& value, const SchemaParts& parts);
  // Whether it is sure that no value is valid under both.
  bool are_disjoint(const SchemaParts& a, const SchemaParts& b);

 private:
  struct Bound {
    const char* keyword;
    bool is_least, exclusive;
  };

  void add(const SchemaJson& schema, const SchemaPath& path, SchemaParts& parts);
  void add_part(const SchemaJson& schema, const SchemaPath& path, SchemaParts& parts);
  const SchemaJson& target_of(const SchemaJson& reference, const SchemaPath& path) const;
  void check_keywords(const SchemaPart& part);
  void check_discriminator(Alternatives& found, const SchemaPart& part);
  void add_bound(NumberLimits& limits, const SchemaPart& part, const Bound& bound) const;
  const PatternAutomaton& compiled(const std::string& pattern, const SchemaPath& path);
  template <typename Call>
  void for_each_pattern(const SchemaParts& parts, Call&& call);
  bool is_valid_part(const SchemaJson& value, const SchemaPart& part);
  bool is_valid_string(const std::string& value, const SchemaParts& parts);
  bool is_valid_array(const SchemaJson& value, const SchemaParts& parts);
  bool is_valid_object(const SchemaJson& value, const SchemaParts& parts);

  const SchemaJson& root_;
  std::set<const SchemaJson*> checked_;  // their keywords are known
  std::vector<const SchemaJson*> open_;  // references that are being followed
  std::deque<SchemaJson> own_;           // schemas that are not in the text
  std::map<std::string, PatternAutomaton> patterns_;
  size_t pattern_steps_ = 0;
  int depth_ = 0;
  const SchemaJson* source_ = nullptr;  // the list whose values are looked at
  size_t work_ = 0, comparisons_ = 0;
};

}  // namespace serval::grammar
