// From a request's texts to token ids, with the limits of the model.
#pragma once

#include "engine/include/serval/engine.h"
#include "engine/server/service/generation.h"

namespace serval::server {

// The token ids of a prompt, whose name messages have. Throws ApiError (400). Thread-safe.
std::vector<int32_t> encode_prompt(const Engine& engine, const Prompt& prompt, const TokenizeOptions& options,
                                   const std::string& name);

// Throws ApiError where a prompt cannot be encoded or does not fit the context. Thread-safe.
EncodedRequest encode(const Engine& engine, TextRequest text);

}  // namespace serval::server
