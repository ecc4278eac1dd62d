// Requests of /v1/responses, without stored state.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// Reads the parameters that only this path has: `input`, `instructions`,
// `max_output_tokens`, `tools` and `text`.
// `body` is the text of the object that `fields` reads. Throws ApiError (400).
void read_response(TextRequest& request, const BodyFields& fields, const std::string& body);

// Throws ApiError (400) for the first member that is not a parameter, unless has_no_effect().
void refuse_unsupported_response(const nlohmann::json& body);

}  // namespace serval::server
