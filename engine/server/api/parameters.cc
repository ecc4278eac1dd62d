#include "engine/server/api/parameters.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"
#include "engine/server/api/body_fields.h"
#include "engine/server/api/limits.h"
#include "instructions/sample/ranges.h"

namespace serval::server {
namespace {

using nlohmann::json;

std::vector<Parameter> make_parameters() {
  using namespace api_limit;
  const std::string model_default = "the model's `generation_config.json`, else ";
  const std::string names = fmt::format("{} bytes", kNameBytes);
  const std::string stops = fmt::format("{} strings of 1 to {} bytes", kStopStrings, kStopBytes);
  const std::string answers = fmt::format("1 to {}; of all prompts together {}", kAnswers, kAnswers);
  constexpr bool kYes = true, kNo = false;
  return {
      {"model", kYes, kYes, "string", "the model that is served", names,
       "its name, as `/v1/models` lists it"},
      {"prompt", kYes, kNo, "string, token ids, or an array of either", "required",
       fmt::format("1 to {} prompts; tokens: the context less one", kPrompts), "what is continued"},
      {"messages", kNo, kYes, "array", "required", fmt::format("1 to {}", kMessages),
       "`role` is `system`, `user` or `assistant`, `content` a string or parts of `type` `text`"},
      {"max_tokens", kYes, kYes, "integer",
       fmt::format("{}; chat: what the context leaves", kCompletionTokens), fmt::format("0 to {}", INT32_MAX),
       "most tokens of an answer; the context may end it before"},
      {"max_completion_tokens", kNo, kYes, "integer", "as `max_tokens`", fmt::format("0 to {}", INT32_MAX),
       "the same; set one of the two"},
      {"temperature", kYes, kYes, "number", model_default + "0.8", sampling_range::kTemperature.text(),
       "0: always the likeliest token"},
      {"top_p", kYes, kYes, "number", model_default + "0.95", sampling_range::kTopP.text(),
       "keeps the likeliest tokens that make up this much of the probability; 1: all"},
      {"top_k", kYes, kYes, "integer", model_default + "40", fmt::format("-1 to {}", INT32_MAX),
       "keeps so many of the likeliest tokens; 0 or -1: all"},
      {"min_p", kYes, kYes, "number", model_default + "0.05", sampling_range::kMinP.text(),
       "drops tokens less likely than so many times the likeliest"},
      {"repetition_penalty", kYes, kYes, "number", model_default + "1",
       sampling_range::kRepetitionPenalty.text(),
       "makes the tokens that `repeat_last_n` looks back on less likely; 1: off"},
      {"repeat_last_n", kYes, kYes, "integer", "64", sampling_range::kRepeatLastN.text(),
       "tokens that `repetition_penalty` looks back on; 0: none, -1: all"},
      {"presence_penalty", kYes, kYes, "number", "0", sampling_range::kPresencePenalty.text(),
       "subtracted from the logits of tokens that the answer has"},
      {"frequency_penalty", kYes, kYes, "number", "0", sampling_range::kFrequencyPenalty.text(),
       "the same, once for each time that the answer has the token"},
      {"logit_bias", kYes, kYes, "object", "none",
       fmt::format("{} tokens, each {}", kLogitBiases, sampling_range::kLogitBias.text()),
       "token id → what is added to its logit"},
      {"min_tokens", kYes, kYes, "integer", "0", "0 to `max_tokens`",
       "at least so many tokens: before, no token that ends the answer is drawn; a stop string ends it all "
       "the same"},
      {"seed", kYes, kYes, "integer", "random", "64 bits", "the same seed gives the same answers"},
      {"n", kYes, kYes, "integer", "1", answers, "answers to a prompt, which is read once"},
      {"best_of", kYes, kNo, "integer", "`n`", "`n`", "must be `n`: answers are not ranked"},
      {"stop", kYes, kYes, "string or array", "none", stops, "the text ends before the first of these"},
      {"stop_token_ids", kYes, kYes, "array of integers", "none",
       fmt::format("{}, the model's own included", kStopTokens), "the text ends before the first of these"},
      {"ignore_eos", kYes, kYes, "boolean", "false", "", "goes on after an end-of-text token"},
      {"response_format", kYes, kYes, "object", "`{\"type\": \"text\"}`",
       "`type` is `text`, `json_object` or `json_schema`; not with `min_tokens` or `ignore_eos`",
       "the text is JSON: any object, or valid under `json_schema.schema` ([below](#json-output))"},
      {"logprobs", kYes, kYes, "completions: integer; chat: boolean", "none",
       fmt::format("{}; `true`", sampling_range::kTopLogprobs.text()),
       "log probabilities of the answer's tokens, and of so many of the likeliest in their place, under the "
       "model's own softmax"},
      {"top_logprobs", kNo, kYes, "integer", "0", sampling_range::kTopLogprobs.text() + ", with `logprobs`",
       "log probabilities of so many of the likeliest tokens in each place"},
      {"echo", kYes, kNo, "boolean", "false", "not with `logprobs`", "the text begins with the prompt"},
      {"stream", kYes, kYes, "boolean", "false", "", "server-sent events, one a token"},
      {"stream_options", kYes, kYes, "object", "none", "only with `stream`",
       "`include_usage`: a last event counts the tokens"},
      {"priority", kYes, kYes, "integer", "0", fmt::format("{} to {}", -kPriority, kPriority),
       "smaller ones are served first"},
      {"user", kYes, kYes, "string", "none", names, "stands in the request's log line"},
  };
}

// Members of OpenAI's requests that ask for nothing special with these values.
bool asks_for_nothing(const std::string& name, const json& value) {
  if (value.is_null()) return true;
  if ((value.is_array() || value.is_object()) && value.empty())
    return name == "tools" || name == "functions" || name == "metadata";
  if (name == "modalities") return value == json{"text"};
  if (name == "suffix") return value.is_string() && value.get_ref<const std::string&>().empty();
  if (name == "store") return value == false;
  if (name == "service_tier") return value == "auto" || value == "default";
  return false;
}

}  // namespace

std::span<const Parameter> parameters() {
  static const std::vector<Parameter> all = make_parameters();
  return all;
}

std::string parameter_table() {
  std::string table =
      "| parameter | of | type | default | limit | meaning |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const Parameter& p : parameters()) {
    const char* paths = p.completions && p.chat ? "both" : p.chat ? "chat" : "completions";
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", p.name, paths, p.type, p.fallback, p.limit,
                         p.meaning);
  }
  return table;
}

void refuse_unsupported(const json& body, TextPath path) {
  for (const auto& [name, value] : body.items()) {
    const auto known = std::ranges::find(parameters(), name, &Parameter::name);
    const bool is_known =
        known != parameters().end() && (path == TextPath::kChat ? known->chat : known->completions);
    if (is_known || asks_for_nothing(name, value)) continue;
    BodyFields(json{{name, true}}).refuse_others({});
  }
}

}  // namespace serval::server
