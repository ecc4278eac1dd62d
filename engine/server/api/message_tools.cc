#include "engine/server/api/message_tools.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"
#include "engine/server/api/message_blocks.h"
#include "engine/server/api/tools.h"

namespace serval::server {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kTool = "tool";

void check_schema(const BodyFields& tool) {
  const json* schema = tool.find("input_schema");
  const std::string name = tool.full_name("input_schema");
  if (schema == nullptr) refuse_parameter(name, "absent; expected a JSON schema");
  if (!schema->is_object()) refuse_parameter(name, shown_value(*schema) + "; expected a JSON schema");
  const auto type = schema->find("type");
  if (type == schema->end() || *type != "object")
    refuse_parameter(name + ".type",
                     (type == schema->end() ? "absent" : shown_value(*type)) + "; expected object");
}

// Members that are accepted with the values that ask for what happens anyway.
void check_neutral(const BodyFields& tool) {
  tool.boolean("eager_input_streaming");  // input is sent as it is made
  const json direct = json::array({"direct"}), none = json::array();
  for (const auto& [name, only] :
       {std::pair("defer_loading", json(false)), {"allowed_callers", direct}, {"input_examples", none}}) {
    const json* value = tool.find(name);
    if (value != nullptr && *value != only)
      refuse_parameter(tool.full_name(name),
                       fmt::format("{}; only {} is supported", shown_value(*value), only.dump()));
  }
}

// Returns the tool's definition for the chat template. `written`: the tool in the order of the body.
ordered_json add_tool(RequestTools& tools, const BodyFields& tool, const ordered_json& written) {
  const auto type = tool.text("type", api_limit::kNameBytes);
  if (type && *type != "custom")
    refuse_parameter(tool.full_name("type"),
                     shown_value(*type) + "; only custom is supported: the server runs no tools itself");
  tool.refuse_others({"type", "name", "description", "input_schema", "strict", "cache_control",
                      "eager_input_streaming", "defer_loading", "allowed_callers", "input_examples"});
  check_cache_control(tool);
  check_neutral(tool);
  const auto description = tool.text("description", SIZE_MAX);
  ToolFunction function{.name = required_function_name(tool, kTool)};
  check_schema(tool);
  const ordered_json& schema = written.at("input_schema");
  function.parameters = schema.dump();
  function.strict = tool.boolean("strict").value_or(false);
  if (std::ranges::find(tools.functions, function.name, &ToolFunction::name) != tools.functions.end())
    refuse_parameter(tool.full_name("name"), shown_value(function.name) + "; another tool has this name");
  ordered_json definition = {{"name", function.name}};
  if (description) definition["description"] = *description;
  definition["parameters"] = schema;
  tools.functions.push_back(std::move(function));
  return {{"type", "function"}, {"function", std::move(definition)}};
}

void read_list(RequestTools& tools, const json& list, const std::string& body) {
  if (!list.is_array()) refuse_parameter("tools", shown_value(list) + "; expected an array");
  if (list.size() > kMaxFunctions)
    refuse_parameter("tools", fmt::format("{} tools; limit: {}", list.size(), kMaxFunctions));
  if (list.empty()) return;
  const ordered_json written = ordered_json::parse(body).at("tools");
  ordered_json definitions = ordered_json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("tools[{}]", i);
    if (!list[i].is_object()) refuse_parameter(name, shown_value(list[i]) + "; expected an object");
    definitions.push_back(add_tool(tools, BodyFields(list[i], name + "."), written[i]));
  }
  tools.definitions = definitions.dump();
  tools.choice = ToolChoice::kAuto;
}

void read_choice(RequestTools& tools, const json& value) {
  const std::string name = "tool_choice";
  if (!value.is_object()) refuse_parameter(name, shown_value(value) + "; expected an object");
  const BodyFields choice(value, name + ".");
  const auto type = choice.text("type", api_limit::kNameBytes);
  const bool is_named = type == "tool", is_none = type == "none";
  if (!is_named && !is_none && type != "auto" && type != "any")
    refuse_parameter(name + ".type",
                     (type ? shown_value(*type) : "absent") + "; expected auto, any, tool or none");
  if (is_named)
    choice.refuse_others({"type", "name", "disable_parallel_tool_use"});
  else if (is_none)
    choice.refuse_others({"type"});
  else
    choice.refuse_others({"type", "disable_parallel_tool_use"});
  if (tools.functions.empty() && !is_none) refuse_parameter(name, "needs tools");
  tools.parallel = !choice.boolean("disable_parallel_tool_use").value_or(false);
  if (is_none) tools.choice = ToolChoice::kNone;
  if (is_named || type == "any") tools.choice = ToolChoice::kRequired;
  if (!is_named) return;
  tools.chosen = required_function_name(choice, kTool);
  if (std::ranges::find(tools.functions, tools.chosen, &ToolFunction::name) == tools.functions.end())
    refuse_parameter(name + ".name", shown_value(tools.chosen) + "; no tool has this name");
}

}  // namespace

RequestTools read_message_tools(const BodyFields& fields, const std::string& body) {
  RequestTools tools;
  if (const json* list = fields.find("tools")) read_list(tools, *list, body);
  if (const json* choice = fields.find("tool_choice")) read_choice(tools, *choice);
  return tools;
}

}  // namespace serval::server
