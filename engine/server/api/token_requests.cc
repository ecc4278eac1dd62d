#include "engine/server/api/token_requests.h"

#include "engine/server/api/body_fields.h"
#include "engine/server/api/json_text.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/model_name.h"
#include "engine/server/api/prompts.h"

namespace serval::server {

TokenizeRequest parse_tokenize_request(const std::string& body, const ModelDefaults& defaults) {
  const nlohmann::json parsed = parse_body(body);
  const BodyFields fields(parsed);
  fields.refuse_others({"model", "prompt", "messages"});
  check_model_name(fields, defaults.name);
  const nlohmann::json* messages = fields.find("messages");
  const auto prompt = fields.text("prompt", SIZE_MAX);
  if (prompt && messages != nullptr) refuse_parameter("messages", "prompt is set, too; set either, not both");
  if (messages != nullptr) return parse_messages(*messages);
  if (!prompt) throw ApiError(400, "missing_parameter", "prompt: required", "prompt");
  return *prompt;
}

std::string tokenize_answer(const std::vector<int32_t>& tokens, int context) {
  return json_text({{"count", tokens.size()}, {"max_model_len", context}, {"tokens", tokens}});
}

std::vector<int32_t> parse_detokenize_request(const std::string& body, const ModelDefaults& defaults) {
  const nlohmann::json parsed = parse_body(body);
  const BodyFields fields(parsed);
  fields.refuse_others({"model", "tokens"});
  check_model_name(fields, defaults.name);
  if (fields.find("tokens") == nullptr)
    throw ApiError(400, "missing_parameter", "tokens: required", "tokens");
  return fields.token_ids("tokens", api_limit::kTokens);
}

std::string detokenize_answer(const std::string& text) {
  return json_text({{"prompt", text}});
}

}  // namespace serval::server
