#include "engine/grammar/schema_parts.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "fmt/format.h"

#include "engine/grammar/schema_formats.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {
namespace {

using Json = SchemaJson;

constexpr uint8_t kAnyOfExpanded = 1, kOneOfExpanded = 2;
constexpr size_t kMostComparisons = 20'000, kMostWork = 5'000'000;
constexpr int kMostDisjointDepth = 24;

struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {{"object", Type::kObject},   {"array", Type::kArray},
                               {"string", Type::kString},   {"number", Type::kNumber},
                               {"integer", Type::kInteger}, {"boolean", Type::kBoolean},
                               {"null", Type::kNull}};

// Keywords that do not restrict values.
constexpr std::string_view kAnnotations[] = {"title",      "description", "default",   "examples",
                                             "deprecated", "readOnly",    "writeOnly", "$schema",
                                             "$id",        "$comment",    "$defs",     "definitions"};
// Keywords for values of all types.
constexpr std::string_view kGeneral[] = {"type",  "enum",  "const", "anyOf",
                                         "oneOf", "allOf", "$ref",  "discriminator"};
// Keywords that apply to values of one type.
struct TypeKeyword {
  std::string_view name;
  Type type;
};
constexpr TypeKeyword kTypeKeywords[] = {{"properties", Type::kObject},
                                         {"required", Type::kObject},
                                         {"additionalProperties", Type::kObject},
                                         {"items", Type::kArray},
                                         {"prefixItems", Type::kArray},
                                         {"minItems", Type::kArray},
                                         {"maxItems", Type::kArray},
                                         {"minLength", Type::kString},
                                         {"maxLength", Type::kString},
                                         {"pattern", Type::kString},
                                         {"format", Type::kString},
                                         {"minimum", Type::kNumber},
                                         {"maximum", Type::kNumber},
                                         {"exclusiveMinimum", Type::kNumber},
                                         {"exclusiveMaximum", Type::kNumber},
                                         {"multipleOf", Type::kNumber}};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

const TypeKeyword* type_keyword(std::string_view name) {
  const auto* found = std::ranges::find(kTypeKeywords, name, &TypeKeyword::name);
  return found == std::end(kTypeKeywords) ? nullptr : found;
}

bool has_no_effect(std::string_view name, const Json& value) {
  return (name == "uniqueItems" || name == "nullable") && value == false;
}

// Sets of types. "number" is the union of "integer" and kFractions.
using TypeSet = uint32_t;
constexpr TypeSet kFractions = 1U << 7;
constexpr TypeSet bit_of(Type type) {
  const TypeSet bit = 1U << static_cast<uint32_t>(type);
  constexpr TypeSet kIntegers = 1U << static_cast<uint32_t>(Type::kInteger);
  return type == Type::kNumber ? kIntegers | kFractions : bit;
}

std::vector<Type> types_in(TypeSet set) {
  std::vector<Type> types;
  for (const TypeName& each : kTypes) {
    const TypeSet bits = bit_of(each.type);
    if (each.type == Type::kInteger && (set & kFractions) != 0) continue;
    if ((set & bits) == bits) types.push_back(each.type);
  }
  return types;
}

TypeSet type_named(const Json& name, const SchemaPath& path) {
  const auto is_it = [&](const TypeName& t) {
    return name.is_string() && name.get_ref<const std::string&>() == t.name;
  };
  const auto* found = std::ranges::find_if(kTypes, is_it);
  if (found == std::end(kTypes))
    path.refuse("expected object, array, string, number, integer, boolean or null");
  return bit_of(found->type);
}

TypeSet types_named(const Json& type, const SchemaPath& path) {
  if (!type.is_array()) return type_named(type, path);
  if (type.empty()) path.refuse("no type");
  TypeSet set = 0;
  for (const Json& name : type) set |= type_named(name, path);
  return set;
}

TypeSet type_of(const Json& value) {
  if (is_number(value)) return is_integer(value) ? bit_of(Type::kInteger) : kFractions;
  if (value.is_object()) return bit_of(Type::kObject);
  if (value.is_array()) return bit_of(Type::kArray);
  if (value.is_string()) return bit_of(Type::kString);
  return bit_of(value.is_boolean() ? Type::kBoolean : Type::kNull);
}

void add_once(SchemaParts& parts, SchemaPart part) {
  const auto is_it = [&](const SchemaPart& p) {
    return p.schema == part.schema && p.expanded == part.expanded;
  };
  if (std::ranges::none_of(parts, is_it)) parts.push_back(std::move(part));
}

// True if the part restricts values beyond its expanded alternatives and the schemas of `$ref` and `allOf`.
bool restricts_more(const SchemaPart& part) {
  for (const auto& [name, value] : part.schema->items()) {
    const bool is_expanded = (name == "anyOf" && (part.expanded & kAnyOfExpanded) != 0) ||
                             (name == "oneOf" && (part.expanded & kOneOfExpanded) != 0);
    const bool is_followed = name == "allOf" || name == "$ref" || name == "discriminator";
    if (!is_expanded && !is_followed && !is_among(name, kAnnotations)) return true;
  }
  return false;
}

uint32_t count_in(const Json& value, const SchemaPath& path) {
  const std::optional<Decimal> count = decimal_of(value);
  const Decimal most(BigInteger::of(std::to_string(INT32_MAX), false), 0);
  const bool is_count = count && count->is_integer() && !count->is_negative() && *count <= most;
  if (!is_count) path.refuse(fmt::format("expected a whole number from 0 to {}", INT32_MAX));
  return static_cast<uint32_t>(std::stoul(count->plain()));
}

// Validators read a bound with a point or an exponent as a double. A large bound may not be the written one,
// so it is rounded in the same way: from 10^15 on, a double has at most three decimals.
Decimal bound_value(const Json& value, const SchemaPath& path) {
  std::optional<Decimal> bound = decimal_of(value);
  if (!bound) path.refuse(is_number(value) ? "a number out of range" : "expected a number");
  constexpr int kExactMagnitude = 15;
  const std::string text = spelling_of(value);
  const bool is_double = text.find_first_of(".eE") != std::string::npos;
  if (is_double && bound->magnitude() >= kExactMagnitude)
    bound = Decimal::of(fmt::format("{:.3f}", std::strtod(text.c_str(), nullptr)));
  if (!bound) path.refuse("a number out of range");
  return *bound;
}

}  // namespace

const Json* SchemaPart::find(const char* keyword) const {
  if (!schema->is_object()) return nullptr;
  const auto found = schema->find(keyword);
  return found == schema->end() ? nullptr : &*found;
}

SchemaPartsKey key_of(const SchemaParts& parts) {
  SchemaPartsKey key;
  for (const SchemaPart& part : parts) key.emplace_back(part.schema, part.expanded);
  return key;
}

SchemaParts Schemas::parts_of(const Json& schema, const SchemaPath& path) {
  SchemaParts parts;
  add(schema, path, parts);
  return parts;
}

void Schemas::add(const Json& schema, const SchemaPath& path, SchemaParts& parts) {
  if (schema.is_boolean()) {
    if (schema == false) add_once(parts, {&schema, path});
    return;
  }
  if (!schema.is_object()) path.refuse("expected an object, true or false");
  if (std::ranges::find(open_, &schema) != open_.end())
    path.refuse("no finite value matches it: it refers to itself with nothing in between");
  if (open_.size() >= kMaxSchemaDepth)
    path.refuse(fmt::format("more than {} schemas nested in each other", kMaxSchemaDepth));
  open_.push_back(&schema);
  add_part(schema, path, parts);
  open_.pop_back();
}

void Schemas::add_part(const Json& schema, const SchemaPath& path, SchemaParts& parts) {
  SchemaPart part = {&schema, path};
  check_keywords(part);
  if (const Json* reference = part.find("$ref"))
    add(target_of(*reference, path / "$ref"), path / "$ref", parts);
  if (const Json* all = part.find("allOf")) {
    if (!all->is_array() || all->empty()) (path / "allOf").refuse("expected an array of schemas");
    for (size_t i = 0; i < all->size(); ++i) add((*all)[i], path / "allOf" / i, parts);
  }
  if (restricts_more(part)) add_once(parts, std::move(part));
}

const Json& Schemas::target_of(const Json& reference, const SchemaPath& path) const {
  if (!reference.is_string()) path.refuse("expected a string");
  const auto& text = reference.get_ref<const std::string&>();
  if (text.empty() || text.front() != '#')
    path.refuse("expected a reference into this schema, such as #/$defs/name");
  try {
    return root_.at(Json::json_pointer(text.substr(1)));
  } catch (const Json::exception&) {
    path.refuse(fmt::format("{} is not in this schema", in_quotes(text)));
  }
}

void Schemas::check_keywords(const SchemaPart& part) {
  if (!checked_.insert(part.schema).second) return;
  for (const auto& [name, value] : part.schema->items()) {
    const bool is_known = type_keyword(name) != nullptr || is_among(name, kGeneral) ||
                          is_among(name, kAnnotations) || has_no_effect(name, value);
    if (!is_known) part.path.refuse(fmt::format("keyword {} is not supported", in_quotes(name)));
  }
  if (const Json* items = part.find("items"); items != nullptr && items->is_array())
    (part.path / "items").refuse("an array is not supported; use prefixItems");
  const bool has_choice = part.find("oneOf") != nullptr || part.find("anyOf") != nullptr;
  if (part.find("discriminator") != nullptr && !has_choice)
    part.path.refuse("discriminator is supported only together with oneOf or anyOf");
}

std::optional<Alternatives> Schemas::alternatives_of(const SchemaParts& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const auto& [keyword, bit] : {std::pair("anyOf", kAnyOfExpanded), {"oneOf", kOneOfExpanded}}) {
      const Json* schemas = parts[i].find(keyword);
      if (schemas == nullptr || (parts[i].expanded & bit) != 0) continue;
      Alternatives found{
          .parts = {}, .alone = {}, .path = parts[i].path / keyword, .exclusive = bit == kOneOfExpanded};
      if (!schemas->is_array() || schemas->empty()) found.path.refuse("expected an array of schemas");
      for (size_t k = 0; k < schemas->size(); ++k)
        found.alone.push_back(parts_of((*schemas)[k], found.path / k));
      check_discriminator(found, parts[i]);
      SchemaParts rest = parts;
      rest[i].expanded |= bit;
      if (!restricts_more(rest[i])) rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      for (const SchemaParts& alone : found.alone) {
        found.parts.push_back(rest);
        for (const SchemaPart& part : alone) add_once(found.parts.back(), part);
      }
      return found;
    }
  }
  return std::nullopt;
}

// Makes the property that a discriminator names required, so that its value identifies the alternative.
void Schemas::check_discriminator(Alternatives& found, const SchemaPart& part) {
  const Json* discriminator = part.find("discriminator");
  if (discriminator == nullptr) return;
  const SchemaPath path = part.path / "discriminator";
  const bool is_object = discriminator->is_object();
  const auto name = is_object ? discriminator->find("propertyName") : discriminator->end();
  if (!is_object || name == discriminator->end() || !name->is_string())
    path.refuse("expected an object with propertyName");
  for (const auto& [member, value] : discriminator->items()) {
    if (member != "propertyName" && member != "mapping")
      path.refuse(fmt::format("{} is not supported", in_quotes(member)));
  }
  const auto property_name = name->get<std::string>();
  const Json& always = own_.emplace_back(Json{{"required", Json::array({property_name})}});
  for (SchemaParts& alone : found.alone) alone.push_back({&always, path});
  const auto mapping = discriminator->find("mapping");
  if (mapping == discriminator->end()) return;
  if (!mapping->is_object()) (path / "mapping").refuse("expected an object");
  for (const auto& [value, reference] : mapping->items()) {
    const SchemaPath place = path / "mapping" / value;
    const Json named(value);
    const Json* target = &target_of(reference, place);
    const auto leads_there = [&](const SchemaParts& alone) {
      return std::ranges::any_of(alone, [&](const SchemaPart& p) { return p.schema == target; }) &&
             is_valid(named, property(alone, property_name));
    };
    if (std::ranges::none_of(found.alone, leads_there))
      place.refuse("expected an alternative that allows this value of the property");
  }
}

std::vector<Type> Schemas::types_of(const SchemaParts& parts) {
  std::optional<TypeSet> named, implied;
  for (const SchemaPart& part : parts) {
    if (!part.schema->is_object()) return {};  // false
    if (const Json* type = part.find("type")) {
      const TypeSet set = types_named(*type, part.path / "type");
      named = named ? *named & set : set;
    }
    for (const auto& [name, value] : part.schema->items()) {
      const TypeKeyword* keyword = type_keyword(name);
      if (keyword != nullptr && !implied) implied = bit_of(keyword->type);
    }
  }
  TypeSet all = 0;
  for (const TypeName& each : kTypes) all |= bit_of(each.type);
  return types_in(named ? *named : implied ? *implied : all);
}

std::optional<std::vector<Json>> Schemas::listed_values(const SchemaParts& parts) {
  for (const SchemaPart& part : parts) {
    const Json* list = part.find("enum");
    const Json* value = part.find("const");
    if (list == nullptr && value == nullptr) continue;
    if (list != nullptr && (!list->is_array() || list->empty()))
      (part.path / "enum").refuse("expected an array of values");
    std::vector<Json> values;
    if (list != nullptr) {
      values.assign(list->begin(), list->end());
    } else {
      values.push_back(*value);
    }
    const Json* before = std::exchange(source_, list);
    std::erase_if(values, [&](const Json& each) { return !is_valid(each, parts); });
    source_ = before;
    return values;
  }
  return std::nullopt;
}

Schemas::Counts Schemas::counts_of(const SchemaParts& parts, const char* least, const char* most) {
  Counts counts = {0, kNoLimit};
  for (const SchemaPart& part : parts) {
    if (const Json* count = part.find(least))
      counts.least = std::max(counts.least, count_in(*count, part.path / least));
    if (const Json* count = part.find(most))
      counts.most = std::min(counts.most, count_in(*count, part.path / most));
    if (counts.most < counts.least) part.path.refuse(fmt::format("{} is less than {}", most, least));
  }
  return counts;
}

void Schemas::add_bound(NumberLimits& limits, const SchemaPart& part, const Bound& bound) const {
  const Json* value = part.find(bound.keyword);
  if (value == nullptr) return;
  const NumberLimits::Bound found = {bound_value(*value, part.path / bound.keyword), bound.exclusive};
  std::optional<NumberLimits::Bound>& known = bound.is_least ? limits.least : limits.most;
  const auto order = known ? found.value <=> known->value : std::strong_ordering::equal;
  const bool is_tighter = bound.is_least ? std::is_gt(order) : std::is_lt(order);
  if (!known || is_tighter || (std::is_eq(order) && bound.exclusive)) known = found;
}

NumberLimits Schemas::number_limits(const SchemaParts& parts) {
  constexpr Bound kBounds[] = {{"minimum", true, false},
                               {"exclusiveMinimum", true, true},
                               {"maximum", false, false},
                               {"exclusiveMaximum", false, true}};
  NumberLimits limits;
  for (const SchemaPart& part : parts) {
    for (const Bound& bound : kBounds) add_bound(limits, part, bound);
    const Json* step = part.find("multipleOf");
    if (step == nullptr) continue;
    const std::optional<Decimal> found = decimal_of(*step);
    const SchemaPath path = part.path / "multipleOf";
    if (!found || found->is_zero() || found->is_negative()) path.refuse("expected a number above 0");
    if (limits.step && *limits.step != *found)
      path.refuse("several different values of multipleOf are not supported together");
    limits.step = found;
  }
  return limits;
}

const PatternAutomaton& Schemas::compiled(const std::string& pattern, const SchemaPath& path) {
  if (const auto known = patterns_.find(pattern); known != patterns_.end()) return known->second;
  try {
    return patterns_.emplace(pattern, compile_pattern(pattern, pattern_steps_)).first->second;
  } catch (const Error& error) {
    path.refuse(error.what());
  }
}

template <typename Call>
void Schemas::for_each_pattern(const SchemaParts& parts, Call&& call) {
  for (const SchemaPart& part : parts) {
    if (const Json* pattern = part.find("pattern")) {
      if (!pattern->is_string()) (part.path / "pattern").refuse("expected a string");
      call(pattern->get<std::string>(), part.path);
    }
    const Json* format = part.find("format");
    if (format == nullptr) continue;
    const std::string_view known = format->is_string() ? pattern_of_format(format->get<std::string>()) : "";
    if (known.empty()) (part.path / "format").refuse("expected one of " + known_formats());
    call(std::string(known), part.path);
  }
}

std::optional<PatternAutomaton> Schemas::pattern_of(const SchemaParts& parts) {
  std::optional<PatternAutomaton> all;
  std::set<std::string> seen;
  for_each_pattern(parts, [&](const std::string& pattern, const SchemaPath& path) {
    if (!seen.insert(pattern).second) return;
    const PatternAutomaton& one = compiled(pattern, path);
    try {
      all = all ? intersection(*all, one) : one;
    } catch (const Error& error) {
      path.refuse(error.what());
    }
  });
  return all;
}

std::vector<std::string> Schemas::properties_of(const SchemaParts& parts) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const SchemaPart& part : parts) {
    const Json* properties = part.find("properties");
    if (properties == nullptr) continue;
    if (!properties->is_object()) (part.path / "properties").refuse("expected an object");
    for (const auto& [name, value] : properties->items())
      if (seen.insert(name).second) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Schemas::required_of(const SchemaParts& parts) {
  std::vector<std::string> names;
  for (const SchemaPart& part : parts) {
    const Json* required = part.find("required");
    if (required == nullptr) continue;
    const SchemaPath path = part.path / "required";
    if (!required->is_array()) path.refuse("expected an array of names");
    for (const Json& name : *required) {
      if (!name.is_string()) path.refuse("expected an array of names");
      names.push_back(name.get<std::string>());
    }
  }
  return names;
}

SchemaParts Schemas::property(const SchemaParts& parts, const std::string& name) {
  SchemaParts found;
  for (const SchemaPart& part : parts) {
    const Json* properties = part.find("properties");
    const bool has_it = properties != nullptr && properties->is_object() && properties->contains(name);
    const Json* others = part.find("additionalProperties");
    if (has_it) {
      add(properties->at(name), part.path / "properties" / name, found);
    } else if (others != nullptr) {
      add(*others, part.path / "additionalProperties", found);
    }
  }
  return found;
}

std::optional<SchemaParts> Schemas::other_properties(const SchemaParts& parts) {
  std::optional<SchemaParts> found;
  for (const SchemaPart& part : parts) {
    const Json* others = part.find("additionalProperties");
    if (others == nullptr) continue;
    if (*others == false) return std::nullopt;
    if (!found) found.emplace();
    add(*others, part.path / "additionalProperties", *found);
  }
  return found;
}

size_t Schemas::prefix_items(const SchemaParts& parts) {
  size_t most = 0;
  for (const SchemaPart& part : parts) {
    const Json* prefix = part.find("prefixItems");
    if (prefix == nullptr) continue;
    if (!prefix->is_array()) (part.path / "prefixItems").refuse("expected an array of schemas");
    most = std::max(most, prefix->size());
  }
  return most;
}

SchemaParts Schemas::item(const SchemaParts& parts, size_t index) {
  SchemaParts found;
  for (const SchemaPart& part : parts) {
    const Json* prefix = part.find("prefixItems");
    const Json* items = part.find("items");
    if (prefix != nullptr && prefix->is_array() && index < prefix->size()) {
      add((*prefix)[index], part.path / "prefixItems" / index, found);
    } else if (items != nullptr) {
      add(*items, part.path / "items", found);
    }
  }
  return found;
}

bool Schemas::is_valid(const Json& value, const SchemaParts& parts) {
  if (++work_ > kMostWork && !parts.empty()) parts.front().path.refuse("too many values to compare");
  if (!std::ranges::all_of(parts, [&](const SchemaPart& part) { return is_valid_part(value, part); }))
    return false;
  if (value.is_string()) return is_valid_string(value.get_ref<const std::string&>(), parts);
  if (value.is_array()) return is_valid_array(value, parts);
  return !value.is_object() || is_valid_object(value, parts);
}

// Checks the keywords for values of all types and for numbers.
bool Schemas::is_valid_part(const Json& value, const SchemaPart& part) {
  if (!part.schema->is_object()) return false;
  if (const Json* type = part.find("type");
      type && (types_named(*type, part.path / "type") & type_of(value)) == 0)
    return false;
  const auto equals = [&](const Json& other) { return are_equal(value, other); };
  if (const Json* one = part.find("const"); one != nullptr && !equals(*one)) return false;
  if (const Json* list = part.find("enum"); list != nullptr && list != source_) {
    work_ += list->size();
    if (std::none_of(list->begin(), list->end(), equals)) return false;
  }
  for (const auto& [keyword, is_any] : {std::pair("anyOf", true), {"oneOf", false}}) {
    const Json* schemas = part.find(keyword);
    if (schemas == nullptr) continue;
    size_t valid = 0;
    for (size_t i = 0; i < schemas->size(); ++i)
      valid += is_valid(value, parts_of((*schemas)[i], part.path / keyword / i)) ? 1 : 0;
    if (valid == 0 || (!is_any && valid > 1)) return false;
  }
  if (!is_number(value)) return true;
  const std::optional<Decimal> number = decimal_of(value);
  const NumberLimits limits = number_limits({part});
  if (!number) return !limits.any();
  const auto within = [&](const NumberLimits::Bound& bound, std::strong_ordering order) {
    return std::is_gt(order) || (std::is_eq(order) && !bound.exclusive);
  };
  if (limits.least && !within(*limits.least, *number <=> limits.least->value)) return false;
  if (limits.most && !within(*limits.most, limits.most->value <=> *number)) return false;
  return !limits.step || is_multiple(*number, *limits.step);
}

bool Schemas::is_valid_string(const std::string& value, const SchemaParts& parts) {
  const Counts counts = counts_of(parts, "minLength", "maxLength");
  constexpr unsigned char kKind = 0xC0, kContinuation = 0x80;
  const auto length = static_cast<size_t>(std::ranges::count_if(
      value, [](char c) { return (static_cast<unsigned char>(c) & kKind) != kContinuation; }));
  if (length < counts.least || length > counts.most) return false;
  bool found = true;
  for_each_pattern(parts, [&](const std::string& pattern, const SchemaPath& path) {
    found = found && is_found(compiled(pattern, path), value);
  });
  return found;
}

bool Schemas::is_valid_array(const Json& value, const SchemaParts& parts) {
  const Counts counts = counts_of(parts, "minItems", "maxItems");
  if (value.size() < counts.least || value.size() > counts.most) return false;
  for (size_t i = 0; i < value.size(); ++i)
    if (!is_valid(value[i], item(parts, i))) return false;
  return true;
}

bool Schemas::is_valid_object(const Json& value, const SchemaParts& parts) {
  for (const std::string& name : required_of(parts))
    if (!value.contains(name)) return false;
  for (const auto& [name, member] : value.items())
    if (!is_valid(member, property(parts, name))) return false;
  return true;
}

bool Schemas::are_disjoint(const SchemaParts& a, const SchemaParts& b) {
  if (++comparisons_ > kMostComparisons || depth_ >= kMostDisjointDepth) return false;
  struct Deeper {
    explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
    ~Deeper() { --depth_; }
    int& depth_;
  } const deeper(depth_);
  for (const SchemaParts* one : {&a, &b}) {
    const SchemaParts& other = one == &a ? b : a;
    if (const auto found = alternatives_of(*one)) {
      return std::ranges::all_of(found->parts,
                                 [&](const SchemaParts& parts) { return are_disjoint(parts, other); });
    }
  }
  for (const SchemaParts* one : {&a, &b}) {
    const SchemaParts& other = one == &a ? b : a;
    if (const auto values = listed_values(*one))
      return std::ranges::none_of(*values, [&](const Json& value) { return is_valid(value, other); });
  }
  const std::vector<Type> types = types_of(a), others = types_of(b);
  TypeSet set = 0, other_set = 0;
  for (const Type type : types) set |= bit_of(type);
  for (const Type type : others) other_set |= bit_of(type);
  if ((set & other_set) == 0) return true;
  if ((set & other_set) != bit_of(Type::kObject)) return false;
  for (const SchemaParts* one : {&a, &b}) {
    for (const std::string& name : required_of(*one))
      if (are_disjoint(property(a, name), property(b, name))) return true;
  }
  return false;
}

}  // namespace serval::grammar
