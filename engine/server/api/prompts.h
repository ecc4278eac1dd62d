// Parses prompts and messages in all of OpenAI's forms. Throws ApiError (400).
#pragma once

#include <vector>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// A string, an array of token ids, or an array of up to `most` of either. Messages call it `name`. Refuses
// empty prompts and empty arrays.
std::vector<Prompt> parse_prompts(const nlohmann::json& value, const std::string& name, size_t most);

// `add_special_tokens` and `parse_special` of a text prompt.
TokenizeOptions read_tokenize_options(const BodyFields& fields);

// Checks `add_special_tokens` and `parse_special` of a conversation. Only the values that describe what
// happens anyway are accepted: the chat template writes the special tokens, and control tokens in messages
// are text.
void check_chat_tokens(const BodyFields& fields);

// `chat_template_kwargs`, `add_generation_prompt` and `continue_final_message`. `body` is the text of the
// object that `fields` reads; members of the variables keep its order.
ChatOptions read_chat_options(const BodyFields& fields, const std::string& body);

// `truncate_prompt_tokens`: TextRequest's.
int read_truncation(const BodyFields& fields);
// `cache_salt`; empty: none.
std::string read_cache_salt(const BodyFields& fields);

// `messages`.
std::vector<ChatMessage> parse_messages(const nlohmann::json& value);

// `input` of /v1/responses, if it is a list of messages, calls of functions and their outputs. Calls belong
// to the message of the assistant before them.
std::vector<ChatMessage> parse_input(const nlohmann::json& value);

}  // namespace serval::server
