// The required format of an answer's text: `response_format`, or `text.format` in /v1/responses.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"
#include "engine/server/api/body_fields.h"

namespace serval::server {

// Reads `response_format` into json_object or json_schema. `body` is the text of the object that `fields`
// reads; a schema's properties keep its order. Does not check that the schema is supported: the compiler
// does. Throws ApiError (400).
void read_response_format(Request& request, const BodyFields& fields, const std::string& body);

// Throws ApiError (400) for a parameter that does not work with a format, which `format_name` requires.
void check_beside_format(const Request& request, const BodyFields& fields, const std::string& format_name);

// Reads `text.format` of /v1/responses in the same way. Returns it as JSON.
std::string read_text_format(Request& request, const BodyFields& fields, const std::string& body);

}  // namespace serval::server
