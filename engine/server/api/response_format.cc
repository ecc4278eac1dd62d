#include "engine/server/api/response_format.h"

#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr const char* kName = "response_format";

// "text", "json_object" or "json_schema".
std::string type_of(const BodyFields& members) {
  const auto type = members.text("type", api_limit::kNameBytes);
  if (type == "text" || type == "json_object" || type == "json_schema") return *type;
  refuse_parameter(members.full_name("type"),
                   (type ? shown_value(*type) : "absent") + "; expected text, json_object or json_schema");
}

// `described` contains the schema, its name and other members.
void check_schema(const json& described, const std::string& name) {
  const BodyFields fields(described, name + ".");
  fields.text("name", api_limit::kNameBytes);
  fields.boolean("strict");
  object_in(described, "schema", name + ".schema");
}

}  // namespace

void read_response_format(Request& request, const BodyFields& fields, const std::string& body) {
  const json* format = fields.find(kName);
  if (format == nullptr) return;
  if (!format->is_object()) refuse_parameter(kName, shown_value(*format) + "; expected an object");
  const BodyFields members(*format, "response_format.");
  const std::string type = type_of(members);
  if (type == "json_schema") {
    members.refuse_others({"type", "json_schema"});
    const std::string name = "response_format.json_schema";
    const json& described = object_in(*format, "json_schema", name);
    BodyFields(described, name + ".").refuse_others({"name", "description", "schema", "strict"});
    check_schema(described, name);
    request.json_schema = nlohmann::ordered_json::parse(body)[kName]["json_schema"]["schema"].dump();
  } else {
    members.refuse_others({"type"});
    request.json_object = type == "json_object";
  }
  if (type != "text") check_beside_format(request, fields, kName);
}

void check_beside_format(const Request& request, const BodyFields& fields, const std::string& format_name) {
  const bool asks = request.min_tokens > 0 || request.ignore_eos;
  for (const char* other : {"min_tokens", "ignore_eos"}) {
    if (asks && fields.find(other) != nullptr)
      refuse_parameter(other, "not with " + format_name + "; set either, not both");
  }
}

std::string read_text_format(Request& request, const BodyFields& fields, const std::string& body) {
  const std::string plain = R"({"type":"text"})";
  const json* text = fields.find("text");
  if (text == nullptr) return plain;
  if (!text->is_object()) refuse_parameter("text", shown_value(*text) + "; expected an object");
  const BodyFields inside(*text, "text.");
  inside.refuse_others({"format"});
  if (inside.find("format") == nullptr) return plain;
  const json& format = object_in(*text, "format", "text.format");
  const BodyFields members(format, "text.format.");
  const std::string type = type_of(members);
  const nlohmann::ordered_json written = nlohmann::ordered_json::parse(body)["text"]["format"];
  if (type == "json_schema") {
    members.refuse_others({"type", "name", "description", "schema", "strict"});
    check_schema(format, "text.format");
    request.json_schema = written["schema"].dump();
  } else {
    members.refuse_others({"type"});
    request.json_object = type == "json_object";
  }
  return written.dump();
}

}  // namespace serval::server
