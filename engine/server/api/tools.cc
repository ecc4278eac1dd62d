#include "engine/server/api/tools.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::server {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kTools = "tools";
constexpr const char* kChoice = "tool_choice";

void check_type(const BodyFields& fields) {
  const auto type = fields.text("type", api_limit::kNameBytes);
  if (type != "function")
    refuse_parameter(fields.full_name("type"),
                     (type ? shown_value(*type) : "absent") + "; only function is supported");
}

constexpr const char* kFunction = "function";

// `schema`: the member `parameters` in the order of the body.
std::string parameters_in(const BodyFields& fields, const ordered_json& schema) {
  const json* parameters = fields.find("parameters");
  const std::string name = fields.full_name("parameters");
  if (parameters == nullptr) return {};
  if (!parameters->is_object()) refuse_parameter(name, shown_value(*parameters) + "; expected a JSON schema");
  const auto type = parameters->find("type");
  if (type != parameters->end() && *type != "object")
    refuse_parameter(name + ".type", shown_value(*type) + "; expected object: arguments are named");
  return schema.dump();
}

struct Tool {
  ToolFunction function;
  ordered_json definition;  // in the form that chat templates expect
};

// `written`: the tool in the order of the body.
Tool read_tool(const json& tool, const ordered_json& written, const std::string& name, ToolShape shape) {
  if (!tool.is_object()) refuse_parameter(name, shown_value(tool) + "; expected an object");
  const BodyFields outer(tool, name + ".");
  check_type(outer);
  const bool is_nested = shape == ToolShape::kChat;
  if (is_nested) outer.refuse_others({"type", "function"});
  const std::string inside = is_nested ? name + ".function" : name;
  const BodyFields fields(is_nested ? object_in(tool, "function", inside) : tool, inside + ".");
  if (is_nested) {
    fields.refuse_others({"name", "description", "parameters", "strict"});
  } else {
    fields.refuse_others({"type", "name", "description", "parameters", "strict"});
  }
  const ordered_json& members = is_nested ? written.at("function") : written;
  fields.text("description", SIZE_MAX);
  ToolFunction function{.name = required_function_name(fields, kFunction),
                        .parameters = parameters_in(fields, members.value("parameters", ordered_json())),
                        .strict = fields.boolean("strict").value_or(false)};
  if (is_nested) return {std::move(function), written};
  ordered_json definition = {{"name", function.name}};
  for (const char* member : {"description", "parameters"})
    if (fields.find(member) != nullptr) definition[member] = members.at(member);
  return {std::move(function), {{"type", "function"}, {"function", std::move(definition)}}};
}

void read_list(RequestTools& tools, const json& list, const std::string& body, ToolShape shape) {
  if (!list.is_array()) refuse_parameter(kTools, shown_value(list) + "; expected an array");
  if (list.empty()) return;
  if (list.size() > kMaxFunctions)
    refuse_parameter(kTools, fmt::format("{} tools; limit: {}", list.size(), kMaxFunctions));
  const ordered_json written = ordered_json::parse(body).at(kTools);
  ordered_json definitions = ordered_json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", kTools, i);
    Tool tool = read_tool(list[i], written[i], name, shape);
    if (std::ranges::find(tools.functions, tool.function.name, &ToolFunction::name) != tools.functions.end())
      refuse_parameter(name, fmt::format("function {} is given twice", tool.function.name));
    tools.functions.push_back(std::move(tool.function));
    definitions.push_back(std::move(tool.definition));
  }
  tools.definitions = definitions.dump();
}

std::string chosen_function(const json& choice, ToolShape shape) {
  const BodyFields outer(choice, std::string(kChoice) + ".");
  check_type(outer);
  if (shape == ToolShape::kResponses) {
    outer.refuse_others({"type", "name"});
    return required_function_name(outer, kFunction);
  }
  outer.refuse_others({"type", "function"});
  const std::string inside = std::string(kChoice) + ".function";
  const BodyFields fields(object_in(choice, "function", inside), inside + ".");
  fields.refuse_others({"name"});
  return required_function_name(fields, kFunction);
}

void read_choice(RequestTools& tools, const json& choice, ToolShape shape) {
  if (choice == "none" || choice == "auto") {
    if (choice == "none") tools.choice = ToolChoice::kNone;
    return;
  }
  if (!choice.is_object() && choice != "required")
    refuse_parameter(kChoice, shown_value(choice) + "; expected none, auto, required or a function");
  if (choice.is_object()) tools.chosen = chosen_function(choice, shape);
  if (tools.functions.empty()) refuse_parameter(kChoice, "needs tools");
  tools.choice = ToolChoice::kRequired;
  const auto& all = tools.functions;
  if (choice.is_object() && std::ranges::find(all, tools.chosen, &ToolFunction::name) == all.end())
    refuse_parameter(kChoice, fmt::format("function {} is not among tools", tools.chosen));
}

}  // namespace

void check_function_name(const std::string& name, const std::string& parameter) {
  constexpr size_t kMost = 64;
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kMost && std::ranges::all_of(name, is_allowed)) return;
  refuse_parameter(parameter,
                   fmt::format("{}; expected 1 to {} letters, digits, '_' or '-'", shown_value(name), kMost));
}

std::string required_function_name(const BodyFields& fields, const char* what) {
  const auto name = fields.text("name", SIZE_MAX);
  if (!name) refuse_parameter(fields.full_name("name"), fmt::format("absent; expected a {}'s name", what));
  check_function_name(*name, fields.full_name("name"));
  return *name;
}

std::string call_arguments(const BodyFields& fields) {
  const char* member = "arguments";
  const auto arguments = fields.text(member, SIZE_MAX);
  const std::string name = fields.full_name(member);
  if (!arguments) refuse_parameter(name, "absent; expected a JSON object as a string");
  if (arguments->empty()) return "{}";
  try {
    if (parse_json_text(*arguments, name).is_object()) return *arguments;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", error.what(), name);
  }
  refuse_parameter(name, "expected a JSON object");
}

RequestTools read_tools(const BodyFields& fields, const std::string& body, ToolShape shape) {
  RequestTools tools;
  if (const json* list = fields.find(kTools)) read_list(tools, *list, body, shape);
  if (!tools.functions.empty()) tools.choice = ToolChoice::kAuto;
  if (const json* choice = fields.find(kChoice)) read_choice(tools, *choice, shape);
  tools.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  return tools;
}

}  // namespace serval::server
