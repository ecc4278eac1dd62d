// Requests of Anthropic's API: /v1/messages and /v1/messages/count_tokens
// (platform.claude.com/docs/en/api/messages).
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// Reads the parameters that only /v1/messages has. `body` is the text of the object that `fields` reads;
// tools and their input keep its order. Throws ApiError (400).
void read_message(TextRequest& request, const BodyFields& fields, const std::string& body);

// Throws ApiError (400) for the first member that is not a parameter, unless it has no effect.
void refuse_unsupported_message(const nlohmann::json& body);

// The body of /v1/messages/count_tokens. Throws ApiError (404 for another model, else 400).
TextRequest parse_count_request(const std::string& body, const ModelDefaults& defaults);
// {"input_tokens": …}
std::string count_answer(size_t tokens);

}  // namespace serval::server
