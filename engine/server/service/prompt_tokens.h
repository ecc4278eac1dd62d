// The tokens of a prompt with their log-probabilities, as an answer lists them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/api/answer_format.h"

namespace serval::server {

// `scores`: of all tokens but the first (Response::prompt_logprobs). `text`: the prompt as the answer repeats
// it, in which text offsets are counted; tokens that are not in it, such as BOS, have the offset of the next
// one. `likeliest`: number of likeliest tokens to list, at most as many as the scores have. Thread-safe.
std::vector<TokenLogprob> tokens_of_prompt(const Engine& engine, std::span<const int32_t> ids,
                                           std::span<const PromptLogprob> scores, std::string_view text,
                                           uint32_t likeliest);

}  // namespace serval::server
