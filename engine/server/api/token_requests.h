// /tokenize and /detokenize: bodies as vLLM's have them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// {"prompt": TEXT} or {"messages": […]}, with "model" or without.
using TokenizeRequest = std::variant<std::string, std::vector<ChatMessage>>;
TokenizeRequest parse_tokenize_request(const std::string& body, const ModelDefaults& defaults);
// {"count", "max_model_len", "tokens"}.
std::string tokenize_answer(const std::vector<int32_t>& tokens, int context);

// {"tokens": […]}.
std::vector<int32_t> parse_detokenize_request(const std::string& body, const ModelDefaults& defaults);
// {"prompt": TEXT}.
std::string detokenize_answer(const std::string& text);

}  // namespace serval::server
