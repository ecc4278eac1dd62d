#include "engine/server/api/prompts.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "fmt/format.h"

#include "engine/server/api/limits.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr const char* kExpected = "expected a string, an array of token ids, or an array of either";

bool is_empty_text(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

Prompt parse_prompt(const json& value, const std::string& name) {
  if (value.empty() || is_empty_text(value)) refuse_parameter(name, "empty; expected at least 1 token");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return token_ids_of(value, name, api_limit::kTokens);
  refuse_parameter(name, shown_value(value) + "; " + kExpected);
}

// The values of `type` that mean a part of text.
using PartTypes = std::initializer_list<std::string_view>;

// The texts of a message's parts, joined.
std::string parse_parts(const json& parts, const std::string& name, PartTypes types) {
  if (parts.size() > api_limit::kContentParts)
    refuse_parameter(name, fmt::format("{} parts; limit: {}", parts.size(), api_limit::kContentParts));
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = fmt::format("{}[{}]", name, i);
    if (!parts[i].is_object()) refuse_parameter(part, shown_value(parts[i]) + "; expected an object");
    const BodyFields fields(parts[i], part + ".");
    const auto type = fields.text("type", api_limit::kNameBytes);
    if (!type || std::ranges::find(types, *type) == types.end())
      refuse_parameter(part + ".type", (type ? shown_value(*type) : "absent") + "; only text is supported");
    const bool is_answer = type == "output_text";  // a former answer of this API, with members of its own
    if (!is_answer) fields.refuse_others({"type", "text"});
    const auto piece = fields.text("text", SIZE_MAX);
    if (!piece) refuse_parameter(part + ".text", "absent; expected a string");
    text += *piece;
  }
  return text;
}

// Returns "system" for "developer", OpenAI's newer name of the same role.
std::string parse_role(const BodyFields& fields, const std::string& name) {
  const auto role = fields.text("role", api_limit::kNameBytes);
  if (role == "developer") return "system";
  if (role == "system" || role == "user" || role == "assistant") return *role;
  refuse_parameter(name + ".role", (role ? shown_value(*role) : "absent") +
                                       "; expected system, developer, user or assistant");
}

// Accepts the members of OpenAI's answers that have no effect while they are empty: clients send them back
// with earlier answers.
void check_empty_members(const BodyFields& fields) {
  for (const char* member : {"tool_calls", "annotations"}) {
    const json* value = fields.find(member);
    if (value != nullptr && !(value->is_array() && value->empty()))
      refuse_parameter(fields.full_name(member), shown_value(*value) + "; only an empty array is supported");
  }
  const json* refusal = fields.find("refusal");
  if (refusal != nullptr && !is_empty_text(*refusal))
    refuse_parameter(fields.full_name("refusal"), shown_value(*refusal) + "; only null is supported");
}

// Reads `role` and `content`. `types`: accepted types of the parts of `content`.
ChatMessage parse_message(const BodyFields& fields, const std::string& name, PartTypes types) {
  const std::string role = parse_role(fields, name);
  const json* content = fields.find("content");
  if (content == nullptr) refuse_parameter(name + ".content", "absent; expected a string or parts of text");
  if (content->is_string()) return {role, content->get<std::string>()};
  if (!content->is_array())
    refuse_parameter(name + ".content", shown_value(*content) + "; expected a string or parts of text");
  return {role, parse_parts(*content, name + ".content", types)};
}

template <class Parse>
std::vector<ChatMessage> parse_list(const json& value, const std::string& list, Parse&& parse) {
  if (!value.is_array() || value.empty())
    refuse_parameter(list, (value.empty() ? "empty" : shown_value(value)) +
                               std::string("; expected an array of at least one message"));
  if (value.size() > api_limit::kMessages)
    refuse_parameter(list, fmt::format("{} messages; limit: {}", value.size(), api_limit::kMessages));
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", list, i);
    if (!value[i].is_object()) refuse_parameter(name, shown_value(value[i]) + "; expected an object");
    messages.push_back(parse(BodyFields(value[i], name + "."), name));
  }
  return messages;
}

// Refuses a parameter that is present with another value than `value`.
void expect(const BodyFields& fields, const char* name, bool value, const char* why) {
  if (fields.boolean(name).value_or(value) != value)
    refuse_parameter(name, fmt::format("{}; only {} is supported: {}", !value, value, why));
}

}  // namespace

TokenizeOptions read_tokenize_options(const BodyFields& fields) {
  return {.special = fields.boolean("parse_special").value_or(true),
          .add_special_tokens = fields.boolean("add_special_tokens").value_or(true)};
}

void check_chat_tokens(const BodyFields& fields) {
  expect(fields, "add_special_tokens", false, "the chat template writes them");
  expect(fields, "parse_special", false, "control tokens that are written in messages are text");
  expect(fields, "add_generation_prompt", true, "the assistant answers");
}

std::vector<Prompt> parse_prompts(const json& value) {
  const bool several = value.is_array() && !value.empty() && (value[0].is_string() || value[0].is_array());
  if (!several) return {parse_prompt(value, "prompt")};
  if (value.size() > api_limit::kPrompts)
    refuse_parameter("prompt", fmt::format("{} prompts; limit: {}", value.size(), api_limit::kPrompts));
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i].type() != value[0].type()) refuse_parameter("prompt", kExpected);
    prompts.push_back(parse_prompt(value[i], fmt::format("prompt[{}]", i)));
  }
  return prompts;
}

std::vector<ChatMessage> parse_messages(const json& value) {
  return parse_list(value, "messages", [](const BodyFields& fields, const std::string& name) {
    fields.refuse_others({"role", "content", "name", "tool_calls", "annotations", "refusal"});
    check_empty_members(fields);
    ChatMessage message = parse_message(fields, name, {"text"});
    message.name = fields.text("name", api_limit::kNameBytes).value_or("");
    return message;
  });
}

std::vector<ChatMessage> parse_input(const json& value) {
  return parse_list(value, "input", [](const BodyFields& fields, const std::string& name) {
    fields.refuse_others({"type", "id", "status", "role", "content"});
    const auto type = fields.text("type", api_limit::kNameBytes);
    if (type && *type != "message")
      refuse_parameter(name + ".type", shown_value(*type) + "; only message is supported");
    return parse_message(fields, name, {"input_text", "output_text"});
  });
}

}  // namespace serval::server
