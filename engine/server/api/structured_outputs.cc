#include "engine/server/api/structured_outputs.h"

#include <algorithm>
#include <array>
#include <span>

#include "nlohmann/json.hpp"

#include "engine/server/api/response_format.h"

namespace serval::server {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kStructured = "structured_outputs";

// A member that states a format: of the body, or of `structured_outputs`.
struct Source {
  const char* name;
  void (*read)(Request& request, const BodyFields& fields, const char* name, const ordered_json& written);
};

std::string read_text(const BodyFields& fields, const char* name) {
  std::string text = fields.text(name, SIZE_MAX).value_or("");
  if (text.empty()) refuse_parameter(fields.full_name(name), "empty; expected at least 1 character");
  return text;
}

void read_schema(Request& request, const BodyFields& fields, const char* name, const ordered_json& written) {
  const json& value = *fields.find(name);
  if (!value.is_object() && !value.is_string())
    refuse_parameter(fields.full_name(name), shown_value(value) + "; expected a schema or its text");
  request.json_schema = value.is_string() ? read_text(fields, name) : written.at(name).dump();
}

void read_regex(Request& request, const BodyFields& fields, const char* name, const ordered_json&) {
  request.regex = read_text(fields, name);
}

void read_choice(Request& request, const BodyFields& fields, const char* name, const ordered_json&) {
  const json& value = *fields.find(name);
  if (!value.is_array() || value.empty())
    refuse_parameter(fields.full_name(name), shown_value(value) + "; expected an array of 1 or more strings");
  request.choice = fields.texts(name, SIZE_MAX, SIZE_MAX);
}

void read_grammar(Request& request, const BodyFields& fields, const char* name, const ordered_json&) {
  request.grammar = read_text(fields, name);
}

// llama.cpp's clients send an empty grammar where they want none.
void read_grammar_or_none(Request& request, const BodyFields& fields, const char* name, const ordered_json&) {
  request.grammar = fields.text(name, SIZE_MAX).value_or("");
}

void read_json_object(Request& request, const BodyFields& fields, const char* name, const ordered_json&) {
  request.json_object = fields.boolean(name).value_or(false);
}

constexpr std::array kOfBody = {
    Source{"guided_json", read_schema},   Source{"guided_regex", read_regex},
    Source{"guided_choice", read_choice}, Source{"guided_grammar", read_grammar},
    Source{"json_schema", read_schema},   Source{"grammar", read_grammar_or_none}};
constexpr std::array kOfStructured = {Source{"json", read_schema}, Source{"regex", read_regex},
                                      Source{"choice", read_choice}, Source{"grammar", read_grammar},
                                      Source{"json_object", read_json_object}};

// The API's own parameter for a format.
const char* name_of_format(TextPath path) {
  if (path == TextPath::kMessages) return "output_config.format";
  return path == TextPath::kResponses ? "text.format" : "response_format";
}

bool has_format(const Request& request) {
  return request.json_object || !request.json_schema.empty() || !request.regex.empty() ||
         !request.choice.empty() || !request.grammar.empty();
}

bool has_any(const BodyFields& fields) {
  const auto has = [&fields](const Source& source) { return fields.find(source.name) != nullptr; };
  return std::ranges::any_of(kOfBody, has) || fields.find(kStructured) != nullptr;
}

// Reads the sources that a request has. Keeps the name of the only one that states a format.
class Reader {
 public:
  // `stated`: the parameter that has stated a format already; empty: none.
  Reader(Request& request, std::string stated) : request_(request), stated_(std::move(stated)) {}

  void read(std::span<const Source> sources, const BodyFields& fields, const ordered_json& written) {
    for (const Source& source : sources) {
      if (fields.find(source.name) == nullptr) continue;
      Request second;
      Request& target = stated_.empty() ? request_ : second;
      source.read(target, fields, source.name, written);
      if (!has_format(target)) continue;
      const std::string name = fields.full_name(source.name);
      if (!stated_.empty()) refuse_parameter(name, "not with " + stated_ + "; set either, not both");
      stated_ = name;
    }
  }
  const std::string& stated() const { return stated_; }

 private:
  Request& request_;
  std::string stated_;
};

void check_structured(const BodyFields& members) {
  constexpr std::array kSwitches = {"disable_fallback", "disable_any_whitespace",
                                    "disable_additional_properties"};
  members.refuse_others(
      {"json", "regex", "choice", "grammar", "json_object", kSwitches[0], kSwitches[1], kSwitches[2]});
  for (const char* name : kSwitches) {
    if (members.boolean(name).value_or(false))
      refuse_parameter(members.full_name(name), "true; only false is supported");
  }
}

}  // namespace

bool is_structured_output(std::string_view name) {
  const auto is_it = [name](const Source& source) { return name == source.name; };
  return name == kStructured || std::ranges::any_of(kOfBody, is_it);
}

void read_structured_outputs(TextRequest& request, const BodyFields& fields, const std::string& body) {
  request.format_name = name_of_format(request.path);
  if (!has_any(fields)) return;
  Reader reader(request.request, has_format(request.request) ? request.format_name : "");
  const ordered_json written = ordered_json::parse(body);
  reader.read(kOfBody, fields, written);
  if (const json* structured = fields.find(kStructured)) {
    if (!structured->is_object())
      refuse_parameter(kStructured, shown_value(*structured) + "; expected an object");
    const BodyFields members(*structured, std::string(kStructured) + ".");
    check_structured(members);
    const std::string before = reader.stated();
    reader.read(kOfStructured, members, written.at(kStructured));
    if (reader.stated() == before)
      refuse_parameter(kStructured,
                       "states no format; expected one of json, regex, choice, grammar, json_object");
  }
  if (reader.stated().empty() || reader.stated() == request.format_name) return;
  request.format_name = reader.stated();
  check_beside_format(request.request, fields, request.format_name);
}

}  // namespace serval::server
