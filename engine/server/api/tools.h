// Tools of a request: `tools`, `tool_choice` and `parallel_tool_calls`.
#pragma once

#include <string>

#include "engine/server/api/body_fields.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// How a path nests the members of a function.
enum class ToolShape {
  kChat,       // {"type": "function", "function": {"name": …}}
  kResponses,  // {"type": "function", "name": …}
};

// `body` is the text of the object that `fields` reads; schemas keep its order. Does not check that a schema
// is supported: the compiler does. Throws ApiError (400).
RequestTools read_tools(const BodyFields& fields, const std::string& body, ToolShape shape);

// Throws ApiError (400) unless `name` is 1 to 64 letters, digits, '_' and '-'.
void check_function_name(const std::string& name, const std::string& parameter);

// The member "name", checked likewise. A message about its absence says `what` has the name: "function".
std::string required_function_name(const BodyFields& fields, const char* what);

// The arguments of a call in a conversation, as they are given; "{}" for an empty text. Throws ApiError (400)
// unless they are a JSON object.
std::string call_arguments(const BodyFields& fields);

}  // namespace serval::server
