// Requests of /v1/responses in their plain text form.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// Reads what the path calls by other names than the others: `input`, `instructions`, `max_output_tokens` and
// `text`. `body` is the text of the object that `fields` reads.
void read_response(TextRequest& request, const BodyFields& fields, const std::string& body);

// Refuses, by name, the first member that is not supported and asks for something.
void refuse_unsupported_response(const nlohmann::json& body);

}  // namespace serval::server
