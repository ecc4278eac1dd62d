// Encodes a request's prompts as token ids and checks them against the model's limits.
#pragma once

#include "engine/include/serval/engine.h"
#include "engine/server/service/generation.h"

namespace serval::server {

// The token ids of a prompt. Messages call it `name`. Throws ApiError (400). Thread-safe.
std::vector<int32_t> encode_prompt(const Engine& engine, const Prompt& prompt, const TokenizeOptions& options,
                                   const std::string& name);

// Throws ApiError (400) if a prompt cannot be encoded or does not fit into the context, or the JSON format
// cannot be compiled. Thread-safe.
EncodedRequest encode(const Engine& engine, TextRequest text);

}  // namespace serval::server
