// The prompt of a request, in each of the ways that OpenAI's clients write it.
#pragma once

#include <vector>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// `prompt`: a string, an array of token ids, or an array of either. At least one, none empty.
std::vector<Prompt> parse_prompts(const nlohmann::json& value);

// `add_special_tokens` and `parse_special`, of a text.
TokenizeOptions read_tokenize_options(const BodyFields& fields);

// The same of a conversation, and `add_generation_prompt`: values that ask for what happens anyway are taken,
// others are refused. A chat template writes the special tokens, and what stands in messages is text.
void check_chat_tokens(const BodyFields& fields);

// `messages`.
std::vector<ChatMessage> parse_messages(const nlohmann::json& value);

// `input`, where it is a list of messages.
std::vector<ChatMessage> parse_input(const nlohmann::json& value);

}  // namespace serval::server
