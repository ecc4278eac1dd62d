#include "engine/server/api/response_request.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"
#include "engine/server/api/prompts.h"
#include "engine/server/api/response_format.h"
#include "engine/server/api/structured_outputs.h"
#include "engine/server/api/tools.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr std::string_view kKnown[] = {"model",
                                       "input",
                                       "instructions",
                                       "max_output_tokens",
                                       "text",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "seed",
                                       "stream",
                                       "user",
                                       "priority",
                                       "tools",
                                       "tool_choice",
                                       "parallel_tool_calls",
                                       "chat_template_kwargs",
                                       "max_reasoning_tokens"};

std::vector<ChatMessage> messages_of(const BodyFields& fields, const std::string& instructions) {
  const json* input = fields.find("input");
  if (input == nullptr) throw ApiError(400, "missing_parameter", "input: required", "input");
  std::vector<ChatMessage> messages;
  if (!instructions.empty()) messages.push_back({"system", instructions});
  if (input->is_string()) {
    if (input->get_ref<const std::string&>().empty()) refuse_parameter("input", "empty; expected a text");
    messages.push_back({"user", input->get<std::string>()});
  } else {
    for (ChatMessage& message : parse_input(*input)) messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

namespace {

// Members that the answer repeats.
void keep_tools(ResponseRequest& response, const BodyFields& fields, const std::string& body) {
  if (fields.find("tools") == nullptr && fields.find("tool_choice") == nullptr) return;
  const auto written = nlohmann::ordered_json::parse(body);
  if (fields.find("tools") != nullptr) response.tools = written.at("tools").dump();
  if (fields.find("tool_choice") != nullptr) response.tool_choice = written.at("tool_choice").dump();
}

}  // namespace

void refuse_unsupported_response(const json& body) {
  for (const auto& [name, value] : body.items()) {
    if (std::ranges::find(kKnown, name) != std::end(kKnown) || is_structured_output(name)) continue;
    if (has_no_effect(TextPath::kResponses, name, value)) continue;
    BodyFields(json{{name, true}}).refuse_others({});
  }
}

void read_response(TextRequest& request, const BodyFields& fields, const std::string& body) {
  ResponseRequest& response = request.response;
  response.instructions = fields.text("instructions", SIZE_MAX).value_or("");
  request.prompts = {messages_of(fields, response.instructions)};
  request.request.max_tokens =
      static_cast<int>(fields.integer("max_output_tokens", 1, INT32_MAX).value_or(-1));
  request.tools = read_tools(fields, body, ToolShape::kResponses);
  keep_tools(response, fields, body);
  request.request.chat = read_chat_options(fields, body);
  response.format = read_text_format(request.request, fields, body);
}

}  // namespace serval::server
