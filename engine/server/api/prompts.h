// The prompt of a request, in each of the ways that OpenAI's clients write it.
#pragma once

#include <vector>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// `prompt`: a string, an array of token ids, or an array of either. At least one, none empty.
std::vector<Prompt> parse_prompts(const nlohmann::json& value);

// `messages`.
std::vector<ChatMessage> parse_messages(const nlohmann::json& value);

// `input`, where it is a list of messages.
std::vector<ChatMessage> parse_input(const nlohmann::json& value);

}  // namespace serval::server
