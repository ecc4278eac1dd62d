#include "engine/server/api/message_request.h"

#include <algorithm>
#include <span>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/json_text.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/message_blocks.h"
#include "engine/server/api/message_tools.h"
#include "engine/server/api/model_name.h"

namespace serval::server {
namespace {

using nlohmann::json;

// The first of these are those of /v1/messages/count_tokens.
constexpr std::string_view kKnown[] = {
    "model",         "messages",      "system",     "tools",    "tool_choice",    "thinking",
    "cache_control", "output_config", "max_tokens", "metadata", "stop_sequences", "stream",
    "temperature",   "top_p",         "top_k",      "seed",     "priority"};
constexpr size_t kKnownOfCount = 8;

// True if a member is null or requests only what happens anyway.
bool is_neutral(const std::string& name, const json& value) {
  return value.is_null() || (name == "service_tier" && (value == "auto" || value == "standard_only")) ||
         (name == "mcp_servers" && value == json::array());
}

void refuse_others(const json& body, std::span<const std::string_view> known) {
  for (const auto& [name, value] : body.items()) {
    if (is_neutral(name, value) || std::ranges::find(known, name) != known.end()) continue;
    BodyFields(json{{name, true}}).refuse_others({});
  }
}

const json* object(const BodyFields& fields, const char* name) {
  const json* value = fields.find(name);
  if (value != nullptr && !value->is_object())
    refuse_parameter(fields.full_name(name), shown_value(*value) + "; expected an object");
  return value;
}

// Returns the limit of the tokens of thinking; -1: none.
int read_budget(const BodyFields& thinking, int max_tokens) {
  const auto budget = thinking.integer("budget_tokens", 1, INT32_MAX);
  const std::string name = thinking.full_name("budget_tokens");
  if (!budget) refuse_parameter(name, "absent; expected a number of tokens");
  if (max_tokens >= 0 && *budget >= max_tokens)
    refuse_parameter(name, fmt::format("{}; limit: less than max_tokens ({})", *budget, max_tokens));
  return static_cast<int>(*budget);
}

// Without `thinking` the model does not think, if its chat template can tell it so.
void read_thinking(Request& request, const BodyFields& fields, int max_tokens) {
  std::string type = "disabled";
  if (const json* value = object(fields, "thinking")) {
    const BodyFields thinking(*value, "thinking.");
    const auto given = thinking.text("type", api_limit::kNameBytes);
    if (given != "enabled" && given != "disabled" && given != "adaptive")
      refuse_parameter("thinking.type",
                       (given ? shown_value(*given) : "absent") + "; expected enabled, disabled or adaptive");
    type = *given;
    if (type == "enabled") {
      thinking.refuse_others({"type", "budget_tokens", "display"});
      request.max_reasoning_tokens = read_budget(thinking, max_tokens);
    } else if (type == "adaptive") {
      thinking.refuse_others({"type", "display"});
    } else {
      thinking.refuse_others({"type"});
    }
    const auto display = thinking.text("display", api_limit::kNameBytes);
    if (display && *display != "summarized")
      refuse_parameter("thinking.display", shown_value(*display) + "; only summarized is supported");
  }
  request.chat.variables = json_text({{"enable_thinking", type != "disabled"}});
}

// `output_config.format`: the text is JSON that is valid under a schema.
void read_output(Request& request, const BodyFields& fields, const std::string& body) {
  const json* config = object(fields, "output_config");
  if (config == nullptr) return;
  const BodyFields members(*config, "output_config.");
  members.refuse_others({"format"});
  const json* value = object(members, "format");
  if (value == nullptr) return;
  const BodyFields format(*value, "output_config.format.");
  format.refuse_others({"type", "schema"});
  const auto type = format.text("type", api_limit::kNameBytes);
  if (type != "json_schema")
    refuse_parameter("output_config.format.type",
                     (type ? shown_value(*type) : "absent") + "; only json_schema is supported");
  if (object(format, "schema") == nullptr)
    refuse_parameter("output_config.format.schema", "absent; expected a JSON schema");
  request.json_schema = nlohmann::ordered_json::parse(body)["output_config"]["format"]["schema"].dump();
}

// What both paths have.
void read_conversation(TextRequest& request, const BodyFields& fields, const std::string& body,
                       int max_tokens) {
  MessageTurns turns = parse_turns(fields, body);
  if (turns.continues_answer) {
    request.request.chat.add_generation_prompt = false;
    request.request.chat.continue_final_message = true;
  }
  request.prompts = {std::move(turns.messages)};
  request.tools = read_message_tools(fields, body);
  read_thinking(request.request, fields, max_tokens);
  read_output(request.request, fields, body);
  check_cache_control(fields);
}

void check_sampling(const BodyFields& fields) {
  const auto temperature = fields.number("temperature");
  if (temperature && (*temperature < 0 || *temperature > 1))
    refuse_parameter("temperature", fmt::format("{}; limit: 0 to 1", *temperature));
  fields.integer("top_k", 0, INT32_MAX);
}

std::string read_user(const BodyFields& fields) {
  const json* metadata = object(fields, "metadata");
  if (metadata == nullptr) return {};
  const BodyFields members(*metadata, "metadata.");
  members.refuse_others({"user_id"});
  return members.text("user_id", api_limit::kNameBytes).value_or("");
}

}  // namespace

void refuse_unsupported_message(const json& body) {
  refuse_others(body, kKnown);
}

void read_message(TextRequest& request, const BodyFields& fields, const std::string& body) {
  const auto max_tokens = fields.integer("max_tokens", 1, INT32_MAX);
  if (!max_tokens) throw ApiError(400, "missing_parameter", "max_tokens: required", "max_tokens");
  request.request.max_tokens = static_cast<int>(*max_tokens);
  read_conversation(request, fields, body, request.request.max_tokens);
  check_sampling(fields);
  request.user = read_user(fields);
}

TextRequest parse_count_request(const std::string& body, const ModelDefaults& defaults) {
  const json parsed = parse_body(body);
  const BodyFields fields(parsed);
  refuse_others(parsed, std::span(kKnown).first(kKnownOfCount));
  check_model_name(fields, defaults.name);
  TextRequest request{.path = TextPath::kMessages};
  request.counts_only = true;
  read_conversation(request, fields, body, -1);
  return request;
}

std::string count_answer(size_t tokens) {
  return json_text({{"input_tokens", tokens}});
}

}  // namespace serval::server
