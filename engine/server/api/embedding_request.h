// Requests of /v1/embeddings.
#pragma once

#include <string>

#include "engine/server/api/text_request.h"

namespace serval::server {

// {"input": …}; optional: the other parameters of embedding_parameter_table(). Throws ApiError: 404 for
// another model, 400 for anything else that is wrong. Prompts are not yet encoded.
TextRequest parse_embedding_request(const std::string& body, const ModelDefaults& defaults);

// The table of docs/api.md: the parameters of /v1/embeddings.
std::string embedding_parameter_table();

}  // namespace serval::server
