#include "engine/server/api/prompts.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "engine/server/api/limits.h"
#include "engine/server/api/tools.h"

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
  if (role == "system" || role == "user" || role == "assistant" || role == "tool") return *role;
  refuse_parameter(name + ".role", (role ? shown_value(*role) : "absent") +
                                       "; expected system, developer, user, assistant or tool");
}

// Accepts the members of OpenAI's answers that have no effect while they are empty: clients send them back
// with earlier answers.
void check_empty_members(const BodyFields& fields) {
  const json* annotations = fields.find("annotations");
  if (annotations != nullptr && !(annotations->is_array() && annotations->empty()))
    refuse_parameter(fields.full_name("annotations"),
                     shown_value(*annotations) + "; only an empty array is supported");
  const json* refusal = fields.find("refusal");
  if (refusal != nullptr && !is_empty_text(*refusal))
    refuse_parameter(fields.full_name("refusal"), shown_value(*refusal) + "; only null is supported");
}

// A text, or the texts of parts. `types`: accepted types of these parts.
std::string parse_content(const BodyFields& fields, const char* member, PartTypes types) {
  const json* content = fields.find(member);
  const std::string name = fields.full_name(member);
  if (content == nullptr) refuse_parameter(name, "absent; expected a string or parts of text");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    refuse_parameter(name, shown_value(*content) + "; expected a string or parts of text");
  return parse_parts(*content, name, types);
}

std::string required_text(const BodyFields& fields, const char* member) {
  const auto text = fields.text(member, api_limit::kNameBytes);
  if (!text || text->empty())
    refuse_parameter(fields.full_name(member), text ? "empty; expected a text" : "absent; expected a string");
  return *text;
}

// A call that the assistant made, in the form of /v1/chat/completions.
ToolCall parse_call(const json& call, const std::string& name) {
  if (!call.is_object()) refuse_parameter(name, shown_value(call) + "; expected an object");
  const BodyFields fields(call, name + ".");
  fields.refuse_others({"id", "type", "function", "index"});
  const auto type = fields.text("type", api_limit::kNameBytes);
  if (type && *type != "function")
    refuse_parameter(name + ".type", shown_value(*type) + "; only function is supported");
  const json* function = fields.find("function");
  if (function == nullptr || !function->is_object())
    refuse_parameter(name + ".function", function ? shown_value(*function) + "; expected an object"
                                                  : "absent; expected an object");
  const BodyFields members(*function, name + ".function.");
  members.refuse_others({"name", "arguments"});
  const std::string called = required_text(members, "name");
  check_function_name(called, members.full_name("name"));
  return {required_text(fields, "id"), called, call_arguments(members)};
}

std::vector<ToolCall> parse_calls(const BodyFields& fields, const std::string& role) {
  const json* calls = fields.find("tool_calls");
  const std::string name = fields.full_name("tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) refuse_parameter(name, shown_value(*calls) + "; expected an array");
  if (!calls->empty() && role != "assistant") refuse_parameter(name, "only the assistant calls tools");
  if (calls->size() > api_limit::kToolCalls)
    refuse_parameter(name, fmt::format("{} calls; limit: {}", calls->size(), api_limit::kToolCalls));
  std::vector<ToolCall> parsed;
  for (size_t i = 0; i < calls->size(); ++i)
    parsed.push_back(parse_call((*calls)[i], fmt::format("{}[{}]", name, i)));
  return parsed;
}

// Members that only messages of certain roles have.
void read_role_members(ChatMessage& message, const BodyFields& fields) {
  message.tool_calls = parse_calls(fields, message.role);
  if (message.role == "tool") {
    message.tool_call_id = required_text(fields, "tool_call_id");
  } else if (fields.find("tool_call_id") != nullptr) {
    refuse_parameter(fields.full_name("tool_call_id"), "only messages of role tool have it");
  }
  for (const char* member : {"reasoning_content", "reasoning"}) {
    const auto reasoning = fields.text(member, SIZE_MAX);
    if (reasoning && message.role != "assistant")
      refuse_parameter(fields.full_name(member), "only messages of role assistant have it");
    if (reasoning && message.reasoning_content.empty()) message.reasoning_content = *reasoning;
  }
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
}

ChatOptions read_chat_options(const BodyFields& fields, const std::string& body) {
  ChatOptions options;
  options.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  const auto prompts = fields.boolean("add_generation_prompt");
  options.add_generation_prompt = prompts.value_or(!options.continue_final_message);
  if (options.continue_final_message && options.add_generation_prompt)
    refuse_parameter("continue_final_message", "not with add_generation_prompt; set either, not both");
  constexpr const char* kVariables = "chat_template_kwargs";
  const json* variables = fields.find(kVariables);
  if (variables == nullptr) return options;
  if (!variables->is_object()) refuse_parameter(kVariables, shown_value(*variables) + "; expected an object");
  for (const char* own : {"messages", "tools", "add_generation_prompt", "continue_final_message", "bos_token",
                          "eos_token", "chat_template", "tokenize"}) {
    if (variables->contains(own))
      refuse_parameter(fmt::format("{}.{}", kVariables, own), "is set by the server");
  }
  if (!variables->empty()) options.variables = nlohmann::ordered_json::parse(body).at(kVariables).dump();
  return options;
}

std::vector<Prompt> parse_prompts(const json& value, const std::string& name, size_t most) {
  const bool several = value.is_array() && !value.empty() && (value[0].is_string() || value[0].is_array());
  if (!several) return {parse_prompt(value, name)};
  if (value.size() > most) refuse_parameter(name, fmt::format("{} {}s; limit: {}", value.size(), name, most));
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i].type() != value[0].type()) refuse_parameter(name, kExpected);
    prompts.push_back(parse_prompt(value[i], fmt::format("{}[{}]", name, i)));
  }
  return prompts;
}

int read_truncation(const BodyFields& fields) {
  const auto kept = fields.integer("truncate_prompt_tokens", -1, INT32_MAX);
  if (kept == 0) refuse_parameter("truncate_prompt_tokens", "0; limit: -1, or 1 to the context less one");
  return static_cast<int>(kept.value_or(0));
}

std::string read_cache_salt(const BodyFields& fields) {
  const auto salt = fields.text("cache_salt", api_limit::kSaltBytes);
  if (salt && salt->empty()) refuse_parameter("cache_salt", "an empty string; expected at least 1 byte");
  return salt.value_or("");
}

std::vector<ChatMessage> parse_messages(const json& value) {
  return parse_list(value, "messages", [](const BodyFields& fields, const std::string& name) {
    fields.refuse_others({"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content",
                          "reasoning", "annotations", "refusal"});
    check_empty_members(fields);
    ChatMessage message{.role = parse_role(fields, name)};
    read_role_members(message, fields);
    const bool may_be_empty = !message.tool_calls.empty() && fields.find("content") == nullptr;
    if (!may_be_empty) message.content = parse_content(fields, "content", {"text"});
    message.name = fields.text("name", api_limit::kNameBytes).value_or("");
    return message;
  });
}

namespace {

// Collects the items of /v1/responses into messages.
class InputItems {
 public:
  void add(const BodyFields& fields, const std::string& name) {
    const std::string type = fields.text("type", api_limit::kNameBytes).value_or("message");
    if (type == "message") return add_message(fields, name);
    if (type == "function_call") return add_call(fields);
    if (type == "function_call_output") return add_output(fields);
    if (type == "reasoning") return add_reasoning(fields);
    refuse_parameter(name + ".type", shown_value(type) +
                                         "; only message, function_call, "
                                         "function_call_output and reasoning are supported");
  }
  std::vector<ChatMessage> take() { return std::move(messages_); }

 private:
  void add_message(const BodyFields& fields, const std::string& name) {
    fields.refuse_others({"type", "id", "status", "role", "content", "phase"});
    ChatMessage message{.role = parse_role(fields, name)};
    if (message.role == "tool")
      refuse_parameter(name + ".role", "\"tool\"; results of tools are items of type function_call_output");
    message.content = parse_content(fields, "content", {"input_text", "output_text"});
    if (message.role == "assistant") message.reasoning_content = std::exchange(reasoning_, {});
    messages_.push_back(std::move(message));
  }
  void add_call(const BodyFields& fields) {
    fields.refuse_others({"type", "id", "status", "call_id", "name", "arguments"});
    const std::string called = required_text(fields, "name");
    check_function_name(called, fields.full_name("name"));
    if (messages_.empty() || messages_.back().role != "assistant" || !reasoning_.empty())
      messages_.push_back({.role = "assistant", .reasoning_content = std::exchange(reasoning_, {})});
    messages_.back().tool_calls.push_back({required_text(fields, "call_id"), called, call_arguments(fields)});
  }
  void add_output(const BodyFields& fields) {
    fields.refuse_others({"type", "id", "status", "call_id", "output"});
    messages_.push_back({.role = "tool",
                         .content = parse_content(fields, "output", {"input_text", "output_text"}),
                         .tool_call_id = required_text(fields, "call_id")});
  }
  void add_reasoning(const BodyFields& fields) {
    fields.refuse_others({"type", "id", "status", "summary", "content", "encrypted_content"});
    if (fields.find("content") != nullptr) reasoning_ += parse_content(fields, "content", {"reasoning_text"});
  }

  std::vector<ChatMessage> messages_;
  std::string reasoning_;  // of the next message of the assistant
};

}  // namespace

std::vector<ChatMessage> parse_input(const json& value) {
  InputItems items;
  parse_list(value, "input", [&items](const BodyFields& fields, const std::string& name) {
    items.add(fields, name);
    return ChatMessage();
  });
  std::vector<ChatMessage> messages = items.take();
  if (messages.empty()) refuse_parameter("input", "has no message; expected at least one");
  return messages;
}

}  // namespace serval::server
