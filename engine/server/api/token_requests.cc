#include "engine/server/api/token_requests.h"

#include "engine/server/api/body_fields.h"
#include "engine/server/api/json_text.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/model_name.h"
#include "engine/server/api/prompts.h"
#include "engine/server/api/tools.h"

namespace serval::server {

TokenizeRequest parse_tokenize_request(const std::string& body, const ModelDefaults& defaults) {
  const nlohmann::json parsed = parse_body(body);
  const BodyFields fields(parsed);
  fields.refuse_others({"model", "prompt", "messages", "tools", "add_special_tokens", "parse_special",
                        "add_generation_prompt", "continue_final_message", "chat_template_kwargs"});
  check_model_name(fields, defaults.name);
  const nlohmann::json* messages = fields.find("messages");
  const auto prompt = fields.text("prompt", SIZE_MAX);
  if (prompt && messages != nullptr) refuse_parameter("messages", "prompt is set, too; set either, not both");
  if (!prompt && messages == nullptr) throw ApiError(400, "missing_parameter", "prompt: required", "prompt");
  TokenizeRequest request;
  if (messages != nullptr) {
    request.prompt = parse_messages(*messages);
    check_chat_tokens(fields);
    request.chat = read_chat_options(fields, body);
    request.chat.tools = read_tools(fields, body, ToolShape::kChat).definitions;
  } else {
    request.prompt = *prompt;
    request.options = read_tokenize_options(fields);
    for (const char* name :
         {"tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"})
      if (fields.find(name) != nullptr) refuse_parameter(name, "needs messages; a prompt is text as it is");
  }
  return request;
}

std::string tokenize_answer(const std::vector<int32_t>& tokens, int context) {
  return json_text({{"count", tokens.size()}, {"max_model_len", context}, {"tokens", tokens}});
}

DetokenizeRequest parse_detokenize_request(const std::string& body, const ModelDefaults& defaults) {
  const nlohmann::json parsed = parse_body(body);
  const BodyFields fields(parsed);
  fields.refuse_others({"model", "tokens", "skip_special_tokens"});
  check_model_name(fields, defaults.name);
  if (fields.find("tokens") == nullptr)
    throw ApiError(400, "missing_parameter", "tokens: required", "tokens");
  return {.tokens = fields.token_ids("tokens", api_limit::kTokens),
          .skip_special_tokens = fields.boolean("skip_special_tokens").value_or(false)};
}

std::string detokenize_answer(const std::string& text) {
  return json_text({{"prompt", text}});
}

std::string tokenizer_info_answer(const ModelInfo& info) {
  const auto text = [](const std::string& value) {
    return value.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  return json_text({{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"bos_token", text(info.bos_token)},
                    {"eos_token", text(info.eos_token)},
                    {"model_max_length", info.context},
                    {"chat_template", text(info.chat_template_text)}});
}

}  // namespace serval::server
