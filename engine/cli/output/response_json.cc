#include "engine/cli/output/response_json.h"

#include "nlohmann/json.hpp"

#include "engine/cli/output/speed.h"

namespace serval::cli {

namespace {

nlohmann::ordered_json top_json(const std::vector<std::vector<TopLogprob>>& places) {
  auto out = nlohmann::ordered_json::array();
  for (const std::vector<TopLogprob>& place : places) {
    auto& tokens = out.emplace_back(nlohmann::ordered_json::array());
    for (const TopLogprob& t : place)
      tokens.push_back({{"token", t.token}, {"log_probability", t.log_probability}});
  }
  return out;
}

}  // namespace

nlohmann::ordered_json response_json(const std::string& prompt, const Response& response) {
  const Speed prompt_speed = speed_of_prompt(response);
  const Speed decode_speed = speed_of_decode(response);
  nlohmann::ordered_json out = {{"prompt", prompt},
                                {"text", response.text},
                                {"prompt_tokens", response.prompt_tokens},
                                {"cached_tokens", response.cached_tokens},
                                {"tokens", response.tokens},
                                {"log_probabilities", response.log_probabilities}};
  if (!response.top_logprobs.empty()) out["top_logprobs"] = top_json(response.top_logprobs);
  out["finish_reason"] = name_of(response.finish);
  if (response.finish == Finish::kError) out["error"] = response.error;
  out["timings"] = {{"load_ms", response.timings.load_ms},
                    {"prompt_ms", response.timings.prompt_ms},
                    {"prompt_tokens_per_second", prompt_speed.tokens_per_second()},
                    {"decode_ms", response.timings.decode_ms},
                    {"decode_tokens_per_second", decode_speed.tokens_per_second()}};
  return out;
}

}  // namespace serval::cli
