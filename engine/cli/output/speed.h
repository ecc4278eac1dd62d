// Tokens per second, from a response's timings.
#pragma once

#include <cstddef>

#include "serval/engine.h"

namespace serval::cli {

inline constexpr double kMillisecondsPerSecond = 1000;

struct Speed {
  size_t tokens = 0;
  double milliseconds = 0;
  // 0 if nothing was measured.
  double tokens_per_second() const {
    return milliseconds > 0 ? kMillisecondsPerSecond * static_cast<double>(tokens) / milliseconds : 0;
  }
};

// Counts the tokens that were read, without those from the KV cache.
inline Speed speed_of_prompt(const Response& response) {
  return {static_cast<size_t>(response.prompt_tokens - response.cached_tokens),
          response.timings.prompt_ms - response.timings.queue_ms};
}

// The first token comes from the prompt's last chunk, so decoding produced the others.
inline Speed speed_of_decode(const Response& response) {
  return {response.tokens.empty() ? 0 : response.tokens.size() - 1, response.timings.decode_ms};
}

}  // namespace serval::cli
