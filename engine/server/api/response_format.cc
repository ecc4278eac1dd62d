#include "engine/server/api/response_format.h"

#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr const char* kName = "response_format";

const json& object_in(const json& of, const char* member, const std::string& name) {
  const auto found = of.find(member);
  if (found == of.end()) refuse_parameter(name, "absent; expected an object");
  if (!found->is_object()) refuse_parameter(name, shown_value(*found) + "; expected an object");
  return *found;
}

void check_schema(const json& format) {
  const json& described = object_in(format, "json_schema", "response_format.json_schema");
  const BodyFields fields(described, "response_format.json_schema.");
  fields.refuse_others({"name", "description", "schema", "strict"});
  fields.text("name", api_limit::kNameBytes);
  fields.boolean("strict");
  object_in(described, "schema", "response_format.json_schema.schema");
}

}  // namespace

void read_response_format(Request& request, const BodyFields& fields, const std::string& body) {
  const json* format = fields.find(kName);
  if (format == nullptr) return;
  if (!format->is_object()) refuse_parameter(kName, shown_value(*format) + "; expected an object");
  const BodyFields members(*format, "response_format.");
  const auto type = members.text("type", api_limit::kNameBytes);
  if (type != "text" && type != "json_object" && type != "json_schema")
    refuse_parameter("response_format.type",
                     (type ? shown_value(*type) : "absent") + "; expected text, json_object or json_schema");
  if (type == "json_schema") {
    members.refuse_others({"type", "json_schema"});
    check_schema(*format);
    request.json_schema = nlohmann::ordered_json::parse(body)[kName]["json_schema"]["schema"].dump();
  } else {
    members.refuse_others({"type"});
    request.json_object = type == "json_object";
  }
  if (type == "text") return;
  for (const char* other : {"min_tokens", "ignore_eos"}) {
    const bool asks = request.min_tokens > 0 || request.ignore_eos;
    if (asks && fields.find(other) != nullptr)
      refuse_parameter(other, "not with response_format; set either, not both");
  }
}

}  // namespace serval::server
