#include "engine/grammar/json_schema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/grammar/json_rules.h"
#include "engine/grammar/pattern.h"
#include "engine/grammar/string_rules.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::grammar {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of properties

constexpr size_t kMaxKeyBytes = 256;
constexpr int kMaxDepth = 128;  // of references and subschemas inside each other

// A schema's place in the text, for messages.
class Path {
 public:
  Path() : text_("#") {}
  Path operator/(std::string_view key) const { return Path(text_ + "/" + std::string(key)); }
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kUsage, fmt::format("json_schema: {}: {}", shown(), problem));
  }

 private:
  explicit Path(std::string text) : text_(std::move(text)) {}
  // Names in it are the client's.
  std::string shown() const {
    constexpr size_t kMost = 100;
    const std::string quoted = in_quotes(text_.size() > kMost ? text_.substr(0, kMost) : text_);
    return quoted.substr(1, quoted.size() - 2);
  }

  std::string text_;
};

enum class Type : uint8_t { kObject, kArray, kString, kNumber, kInteger, kBoolean, kNull };
struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {{"object", Type::kObject},   {"array", Type::kArray},
                               {"string", Type::kString},   {"number", Type::kNumber},
                               {"integer", Type::kInteger}, {"boolean", Type::kBoolean},
                               {"null", Type::kNull}};

// Says nothing about what is valid.
constexpr std::string_view kAnnotations[] = {"title",      "description", "default",   "examples",
                                             "deprecated", "readOnly",    "writeOnly", "$schema",
                                             "$id",        "$comment",    "$defs",     "definitions"};
// Keywords that say something about values of one type.
struct TypeKeyword {
  std::string_view name;
  Type type;
};
constexpr TypeKeyword kTypeKeywords[] = {
    {"properties", Type::kObject}, {"required", Type::kObject},   {"additionalProperties", Type::kObject},
    {"items", Type::kArray},       {"prefixItems", Type::kArray}, {"minItems", Type::kArray},
    {"maxItems", Type::kArray},    {"minLength", Type::kString},  {"maxLength", Type::kString},
    {"pattern", Type::kString},    {"format", Type::kString}};

struct Format {
  std::string_view name, pattern;
};
constexpr Format kFormats[] = {
    {"date", "^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"},
    {"time",
     "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"date-time",
     "^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{"
     "1,6})"
     "?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool has_type(const Json& value, Type type) {
  switch (type) {
    case Type::kObject:
      return value.is_object();
    case Type::kArray:
      return value.is_array();
    case Type::kString:
      return value.is_string();
    case Type::kNumber:
      return value.is_number();
    case Type::kInteger:
      return value.is_number_integer();
    case Type::kBoolean:
      return value.is_boolean();
    case Type::kNull:
      return value.is_null();
  }
  return false;
}

class Compiler {
 public:
  explicit Compiler(const Json& root) : root_(root), rules_(grammar_) {}

  Grammar compile() {
    grammar_.set_top(rule_of(root_, Path()));
    grammar_.finish();
    return std::move(grammar_);
  }

 private:
  // What describes values that are valid under the schema: each is compiled once, so that it may refer to
  // itself.
  RuleId rule_of(const Json& schema, const Path& path) {
    if (const auto known = rule_of_.find(&schema); known != rule_of_.end()) return known->second;
    if (schema.is_boolean()) return rule_of_boolean(schema.get<bool>());
    if (!schema.is_object()) path.refuse("expected an object, true or false");
    if (++depth_ > kMaxDepth) path.refuse(fmt::format("more than {} schemas inside each other", kMaxDepth));
    const StateId start = grammar_.add_state();
    const RuleId rule = grammar_.add_rule(start);
    rule_of_[&schema] = rule;
    fill(schema, path, start);
    --depth_;
    return rule;
  }

  // Nothing is valid under false.
  RuleId rule_of_boolean(bool all) {
    return all ? rules_.any_value() : grammar_.add_rule(grammar_.add_state());
  }

  void fill(const Json& schema, const Path& path, StateId start) {
    const StateId end = grammar_.add_end();
    const auto call = [&](RuleId rule) { grammar_.call(start, rule, end); };
    if (schema.contains("$ref")) {
      refuse_beside(schema, path, "$ref", {});
      return call(rule_of_reference(schema["$ref"], path / "$ref"));
    }
    if (schema.contains("allOf")) {
      refuse_beside(schema, path, "allOf", {});
      const Json& all = schema["allOf"];
      if (!all.is_array() || all.size() != 1) path.refuse("allOf is supported with one element only");
      return call(rule_of(all[0], path / "allOf/0"));
    }
    if (schema.contains("anyOf")) {
      refuse_beside(schema, path, "anyOf", {});
      return fill_any_of(schema["anyOf"], path / "anyOf", start, end);
    }
    for (const char* keyword : {"enum", "const"}) {
      if (!schema.contains(keyword)) continue;
      refuse_beside(schema, path, keyword, {"type"});
      return fill_listed(schema, path, keyword, start, end);
    }
    for (const Type type : types_of(schema, path)) call(rule_of_type(type, schema, path));
  }

  // Keywords beside one that stands alone.
  static void refuse_beside(const Json& schema, const Path& path, std::string_view keyword,
                            std::span<const std::string_view> allowed) {
    for (const auto& [name, value] : schema.items()) {
      if (name == keyword || is_among(name, kAnnotations) || is_among(name, allowed)) continue;
      path.refuse(fmt::format("{} beside {} is not supported", in_quotes(name), keyword));
    }
  }
  static void refuse_beside(const Json& schema, const Path& path, std::string_view keyword,
                            std::initializer_list<std::string_view> allowed) {
    refuse_beside(schema, path, keyword, std::span(allowed.begin(), allowed.size()));
  }

  RuleId rule_of_reference(const Json& reference, const Path& path) {
    if (!reference.is_string()) path.refuse("expected a string");
    const auto& text = reference.get_ref<const std::string&>();
    if (text.empty() || text.front() != '#')
      path.refuse("expected a place in this schema, such as #/$defs/name");
    const Json* target = &root_;
    try {
      target = &root_.at(Json::json_pointer(text.substr(1)));
    } catch (const Json::exception&) {
      path.refuse(fmt::format("{} is not in this schema", in_quotes(text)));
    }
    return rule_of(*target, path);
  }

  void fill_any_of(const Json& schemas, const Path& path, StateId start, StateId end) {
    if (!schemas.is_array() || schemas.empty()) path.refuse("expected an array of schemas");
    for (size_t i = 0; i < schemas.size(); ++i)
      grammar_.call(start, rule_of(schemas[i], path / std::to_string(i)), end);
  }

  // The values of `enum` or the one of `const`, as far as they have the type.
  void fill_listed(const Json& schema, const Path& path, const char* keyword, StateId start, StateId end) {
    const bool is_enum = std::string_view(keyword) == "enum";
    const Json values = is_enum ? schema[keyword] : Json::array({schema[keyword]});
    if (!values.is_array() || values.empty()) (path / keyword).refuse("expected an array of values");
    const bool has_types = schema.contains("type");
    const std::vector<Type> types = has_types ? types_of(schema, path) : std::vector<Type>{};
    for (const Json& value : values) {
      const auto fits = [&](Type type) { return has_type(value, type); };
      if (!has_types || std::ranges::any_of(types, fits)) grammar_.literal(start, value.dump(), end);
    }
  }

  static Type type_named(const Json& name, const Path& path) {
    const auto is_it = [&](const TypeName& t) {
      return name.is_string() && name.get_ref<const std::string&>() == t.name;
    };
    const auto* found = std::ranges::find_if(kTypes, is_it);
    if (found == std::end(kTypes))
      path.refuse("expected object, array, string, number, integer, boolean or null");
    return found->type;
  }

  // Those that `type` names, else the one that other keywords are about, else all. Refuses keywords that are
  // not known.
  static std::vector<Type> types_of(const Json& schema, const Path& path) {
    std::optional<Type> implied;
    for (const auto& [name, value] : schema.items()) {
      const auto* keyword = std::ranges::find(kTypeKeywords, name, &TypeKeyword::name);
      const bool is_known = name == "type" || name == "enum" || name == "const" ||
                            is_among(name, kAnnotations) || asks_for_nothing(name, value);
      if (keyword != std::end(kTypeKeywords)) {
        if (!implied) implied = keyword->type;
      } else if (!is_known) {
        path.refuse(fmt::format("keyword {} is not supported", in_quotes(name)));
      }
    }
    std::vector<Type> types;
    if (const auto type = schema.find("type"); type != schema.end()) {
      if (type->is_array() && type->empty()) (path / "type").refuse("no type");
      if (!type->is_array()) return {type_named(*type, path / "type")};
      for (const Json& name : *type) types.push_back(type_named(name, path / "type"));
      return types;
    }
    if (implied) return {*implied};
    for (const TypeName& t : kTypes)
      if (t.type != Type::kInteger) types.push_back(t.type);
    return types;
  }
  static bool asks_for_nothing(std::string_view name, const Json& value) {
    return (name == "uniqueItems" || name == "nullable") && value == false;
  }

  RuleId rule_of_type(Type type, const Json& schema, const Path& path) {
    switch (type) {
      case Type::kObject:
        return object(schema, path);
      case Type::kArray:
        return array(schema, path);
      case Type::kString:
        return string(schema, path);
      case Type::kNumber:
        return rules_.number();
      case Type::kInteger:
        return rules_.integer();
      case Type::kBoolean:
        return rules_.boolean();
      case Type::kNull:
        break;
    }
    return rules_.null();
  }

  static uint32_t count_of(const Json& schema, const Path& path, const char* keyword, uint32_t fallback) {
    const auto found = schema.find(keyword);
    if (found == schema.end()) return fallback;
    const bool is_count = found->is_number_integer() && *found >= 0 && *found <= INT32_MAX;
    if (!is_count) (path / keyword).refuse(fmt::format("expected a whole number from 0 to {}", INT32_MAX));
    return found->get<uint32_t>();
  }

  struct Counts {
    uint32_t least, most;
  };
  static Counts counts_of(const Json& schema, const Path& path, const char* least, const char* most) {
    const Counts counts = {count_of(schema, path, least, 0), count_of(schema, path, most, kNoLimit)};
    if (counts.most < counts.least) path.refuse(fmt::format("{} is less than {}", most, least));
    return counts;
  }

  RuleId string(const Json& schema, const Path& path) {
    const Counts counts = counts_of(schema, path, "minLength", "maxLength");
    const std::optional<std::string> pattern = pattern_of(schema, path);
    if (!pattern) return rules_.string(counts.least, counts.most);
    try {
      return pattern_string(rules_, compile_pattern(*pattern, pattern_steps_), counts.least, counts.most);
    } catch (const Error& error) {
      path.refuse(error.what());
    }
  }

  static std::optional<std::string> pattern_of(const Json& schema, const Path& path) {
    const auto pattern = schema.find("pattern"), format = schema.find("format");
    if (format != schema.end()) {
      if (pattern != schema.end()) path.refuse("format beside pattern is not supported");
      const auto is_it = [&](const Format& f) {
        return format->is_string() && format->get_ref<const std::string&>() == f.name;
      };
      const auto* known = std::ranges::find_if(kFormats, is_it);
      if (known == std::end(kFormats)) (path / "format").refuse("expected date, time, date-time or uuid");
      return std::string(known->pattern);
    }
    if (pattern == schema.end()) return std::nullopt;
    if (!pattern->is_string()) (path / "pattern").refuse("expected a string");
    return pattern->get<std::string>();
  }

  // A list in brackets that is being written. Elements follow each other with commas in between.
  struct Element {
    RuleId rule;
    bool required;
  };
  // `more`: what may follow the elements, so many times.
  struct More {
    RuleId rule;
    uint32_t least, most;
  };

  // Two chains of states, one before anything is written and one after: the second begins with commas.
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
    const StateId again = grammar_.add_state(), next = grammar_.add_state(),
                  next_empty = grammar_.add_state();
    grammar_.call(rules_.punctuation(again, ','), more.rule, grammar_.add_end());
    const RuleId rule = grammar_.add_rule(again);
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

  RuleId array(const Json& schema, const Path& path) {
    const Counts counts = counts_of(schema, path, "minItems", "maxItems");
    std::vector<Element> elements;
    if (const auto prefix = schema.find("prefixItems"); prefix != schema.end()) {
      if (!prefix->is_array()) (path / "prefixItems").refuse("expected an array of schemas");
      for (size_t i = 0; i < prefix->size(); ++i) {
        constexpr bool kRequired = true;
        elements.push_back({rule_of((*prefix)[i], path / "prefixItems" / std::to_string(i)), kRequired});
      }
    }
    const auto listed_items = static_cast<uint32_t>(elements.size());
    if (counts.most < listed_items) path.refuse("maxItems is less than prefixItems has");
    const auto items = schema.find("items");
    if (items != schema.end() && items->is_array())
      (path / "items").refuse("an array is not supported; use prefixItems");
    std::optional<More> more;
    const bool wants_more = listed_items == 0 || items != schema.end() || counts.least > listed_items;
    if (wants_more) {
      const RuleId rule = items != schema.end() ? rule_of(*items, path / "items") : rules_.any_value();
      more = More{rule, counts.least - std::min(counts.least, listed_items),
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

  static std::vector<std::string> required_of(const Json& schema, const Path& path) {
    std::vector<std::string> names;
    const auto required = schema.find("required");
    if (required == schema.end()) return names;
    if (!required->is_array()) (path / "required").refuse("expected an array of names");
    for (const Json& name : *required) {
      if (!name.is_string()) (path / "required").refuse("expected an array of names");
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  RuleId object(const Json& schema, const Path& path) {
    const auto properties = schema.find("properties"), additional = schema.find("additionalProperties");
    const std::vector<std::string> required = required_of(schema, path);
    const bool says_nothing = properties == schema.end() && additional == schema.end() && required.empty();
    if (says_nothing) return rules_.any_object();
    std::vector<std::string> names;
    std::vector<Element> elements;
    const auto add = [&](const std::string& name, RuleId value) {
      if (name.size() > kMaxKeyBytes)
        path.refuse(fmt::format("a property's name of {} bytes; limit: {}", name.size(), kMaxKeyBytes));
      const bool is_required = std::ranges::find(required, name) != required.end();
      names.push_back(name);
      elements.push_back({member(key(name), value), is_required});
    };
    if (properties != schema.end()) {
      if (!properties->is_object()) (path / "properties").refuse("expected an object");
      for (const auto& [name, value] : properties->items())
        add(name, rule_of(value, path / "properties" / name));
    }
    const RuleId other =
        additional != schema.end() ? rule_of(*additional, path / "additionalProperties") : rules_.any_value();
    for (const std::string& name : required)
      if (std::ranges::find(names, name) == names.end()) add(name, other);
    std::optional<More> more;
    const bool allows_others = additional != schema.end() && *additional != false;
    if (allows_others) more = More{member(rules_.key_but(names), other), 0, kNoLimit};
    return listed('{', '}', elements, more);
  }

  const Json& root_;
  Grammar grammar_;
  JsonRules rules_;
  std::map<const Json*, RuleId> rule_of_;
  int depth_ = 0;
  size_t pattern_steps_ = 0;
};

}  // namespace

Grammar compile_json_schema(std::string_view schema) {
  if (schema.size() > kMaxSchemaBytes) {
    throw Error(ErrorKind::kUsage,
                fmt::format("json_schema: {} bytes; limit: {}", schema.size(), kMaxSchemaBytes));
  }
  try {
    parse_json_text(schema, "json_schema");  // refuses what is hostile
    return Compiler(Json::parse(schema)).compile();
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
