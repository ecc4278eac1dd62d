#include "engine/cli/output/response_json.h"

#include "nlohmann/json.hpp"

#include "engine/cli/output/speed.h"

namespace serval::cli {

nlohmann::ordered_json response_json(const std::string& prompt, const Response& response) {
  const Speed prompt_speed = speed_of_prompt(response);
  const Speed decode_speed = speed_of_decode(response);
  nlohmann::ordered_json out = {{"prompt", prompt},
                                {"text", response.text},
                                {"prompt_tokens", response.prompt_tokens},
                                {"cached_tokens", response.cached_tokens},
                                {"tokens", response.tokens},
                                {"log_probabilities", response.log_probabilities},
                                {"finish_reason", name_of(response.finish)}};
  if (response.finish == Finish::kError) out["error"] = response.error;
  out["timings"] = {{"load_ms", response.timings.load_ms},
                    {"prompt_ms", response.timings.prompt_ms},
                    {"prompt_tokens_per_second", prompt_speed.tokens_per_second()},
                    {"decode_ms", response.timings.decode_ms},
                    {"decode_tokens_per_second", decode_speed.tokens_per_second()}};
  return out;
}

}  // namespace serval::cli
