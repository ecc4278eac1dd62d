#include "engine/server/api/response_request.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/limits.h"
#include "engine/server/api/prompts.h"
#include "engine/server/api/response_format.h"
#include "engine/server/api/structured_outputs.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr std::string_view kKnown[] = {
    "model", "input",  "instructions", "max_output_tokens", "text", "temperature", "top_p", "top_k", "min_p",
    "seed",  "stream", "user",         "priority"};

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
  response.format = read_text_format(request.request, fields, body);
}

}  // namespace serval::server
