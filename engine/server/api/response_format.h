// What a request's text must be: `response_format`, or in /v1/responses `text.format`.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"
#include "engine/server/api/body_fields.h"

namespace serval::server {

// Reads it into json_object or json_schema. `body` is the text of the object that `fields` reads: a schema's
// properties keep the order that they have there. Whether a schema is supported is found out when it is
// compiled.
void read_response_format(Request& request, const BodyFields& fields, const std::string& body);

// The same from /v1/responses' `text`. Returns its `format` as JSON.
std::string read_text_format(Request& request, const BodyFields& fields, const std::string& body);

}  // namespace serval::server
