// The JSON of `generate --json` and `chat --json`; docs/cli.md and tests/cli/generate.schema.json describe
// it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "serval/engine.h"

namespace serval::cli {

// Keys: prompt, text, prompt_tokens, cached_tokens, tokens, log_probabilities, top_logprobs if present,
// finish_reason, error if it failed, timings.
nlohmann::ordered_json response_json(const std::string& prompt, const Response& response);

}  // namespace serval::cli
