// Tools of /v1/messages: `tools` and `tool_choice`.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// `body` is the text of the object that `fields` reads; schemas keep its order. Does not check that a schema
// is supported: the compiler does. Throws ApiError (400).
RequestTools read_message_tools(const BodyFields& fields, const std::string& body);

}  // namespace serval::server
