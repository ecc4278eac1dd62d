// Bodies and answers of /tokenize and /detokenize, in vLLM's format. The parsers throw ApiError (404 for
// another model, else 400).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// {"prompt": TEXT} or {"messages": […]}; optional: "model", "add_special_tokens", "parse_special" and, with
// messages, "tools", "add_generation_prompt", "continue_final_message" and "chat_template_kwargs".
struct TokenizeRequest {
  Prompt prompt = {};     // a text or a conversation
  ChatOptions chat = {};  // of a conversation
  TokenizeOptions options = {};
};
TokenizeRequest parse_tokenize_request(const std::string& body, const ModelDefaults& defaults);
// {"count": …, "max_model_len": …, "tokens": […]}
std::string tokenize_answer(const std::vector<int32_t>& tokens, int context);

// {"tokens": […]}; optional: "model" and "skip_special_tokens".
struct DetokenizeRequest {
  std::vector<int32_t> tokens = {};
  bool skip_special_tokens = false;
};
DetokenizeRequest parse_detokenize_request(const std::string& body, const ModelDefaults& defaults);
// {"prompt": TEXT}
std::string detokenize_answer(const std::string& text);

// What tokenizer_config.json says of a tokenizer: {"tokenizer_class", "bos_token", "eos_token",
// "model_max_length", "chat_template"}. A token or template that the model lacks is null.
std::string tokenizer_info_answer(const ModelInfo& info);

}  // namespace serval::server
