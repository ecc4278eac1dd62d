// Sets of schemas that a value must satisfy together: they come from `allOf`, from `$ref` with keywords
// beside it, and from an alternative of `anyOf` or `oneOf`.
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

inline constexpr int kMaxSchemaDepth = 128;  // nesting limit of references and subschemas

enum class Type : uint8_t { kObject, kArray, kString, kNumber, kInteger, kBoolean, kNull };

struct SchemaPart {
  const SchemaJson* schema;  // an object, or false
  SchemaPath path;
  uint8_t expanded = 0;  // bits of `anyOf` and `oneOf` whose chosen alternative is another part of the set

  const SchemaJson* find(const char* keyword) const;
};

// Without duplicates. If empty, any value is valid.
using SchemaParts = std::vector<SchemaPart>;
// Equal sets of parts have equal keys.
using SchemaPartsKey = std::vector<std::pair<const SchemaJson*, uint8_t>>;
SchemaPartsKey key_of(const SchemaParts& parts);

// The alternatives of an `anyOf` or `oneOf`.
struct Alternatives {
  std::vector<SchemaParts> parts;  // each alternative together with the other parts
  std::vector<SchemaParts> alone;  // each alternative by itself
  SchemaPath path;
  bool exclusive = false;  // `oneOf`: a value must be valid under exactly one of them
  std::string discriminator = {};
  const SchemaJson* mapping = nullptr;
};

// Reads the schemas of one text. Every function throws Error(kUsage) with the name of a keyword or value that
// is wrong or not supported. Not thread-safe.
class Schemas {
 public:
  explicit Schemas(const SchemaJson& root) : root_(root) {}

  // The schema together with the targets of `$ref` and the schemas of `allOf`, which come before it.
  SchemaParts parts_of(const SchemaJson& schema, const SchemaPath& path);
  // The alternatives of the first `anyOf` or `oneOf` that is not expanded; none if all are.
  std::optional<Alternatives> alternatives_of(const SchemaParts& parts);

  // The types that `type` allows in all parts. Without `type`, the type to which the first type-specific
  // keyword applies; without such a keyword, all types.
  std::vector<Type> types_of(const SchemaParts& parts);
  // The values of the first `enum` or `const` that are valid under all parts; nullopt without such a keyword.
  std::optional<std::vector<SchemaJson>> listed_values(const SchemaParts& parts);

  struct Counts {
    uint32_t least, most;
  };
  Counts counts_of(const SchemaParts& parts, const char* least, const char* most);
  NumberLimits number_limits(const SchemaParts& parts);
  // The intersection of all `pattern` and `format`; nullopt without any.
  std::optional<PatternAutomaton> pattern_of(const SchemaParts& parts);

  std::vector<std::string> properties_of(const SchemaParts& parts);  // in the schema's order
  std::vector<std::string> required_of(const SchemaParts& parts);
  SchemaParts property(const SchemaParts& parts, const std::string& name);
  // The parts for properties that are not in properties_of(); nullopt if such properties must not be written.
  std::optional<SchemaParts> other_properties(const SchemaParts& parts);
  size_t prefix_items(const SchemaParts& parts);
  // The parts for item `index`. All items from prefix_items() on have the same.
  SchemaParts item(const SchemaParts& parts, size_t index);

  bool is_valid(const SchemaJson& value, const SchemaParts& parts);
  // Returns true only if no value is valid under both. May return false if this cannot be decided.
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
  std::set<const SchemaJson*> checked_;  // schemas whose keywords are checked
  std::vector<const SchemaJson*> open_;  // schemas that add() is processing, to find cycles
  std::deque<SchemaJson> own_;           // schemas made here, which are not in the text
  std::map<std::string, PatternAutomaton> patterns_;
  size_t pattern_steps_ = 0;
  int depth_ = 0;
  const SchemaJson* source_ = nullptr;  // the `enum` whose values are being checked; it need not be searched
  size_t work_ = 0, comparisons_ = 0;
};

}  // namespace serval::grammar
