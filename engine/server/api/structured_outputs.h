// The format of an answer's text as clients of vLLM and llama.cpp state it: `structured_outputs`,
// `guided_json` and its like, `grammar`, `json_schema`.
#pragma once

#include <string>
#include <string_view>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// True for the name of such a parameter.
bool is_structured_output(std::string_view name);

// Reads the parameter into the request's json_object, json_schema, regex, choice or grammar. Call after
// `response_format`, or `text.format`, is read. `body` is the text of the object that `fields` reads; a
// schema's properties keep its order. Does not check that the format is supported: the compiler does. Throws
// ApiError (400), also for two formats, by both names.
void read_structured_outputs(TextRequest& request, const BodyFields& fields, const std::string& body);

}  // namespace serval::server
