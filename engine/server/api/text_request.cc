#include "engine/server/api/text_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/body_fields.h"
#include "engine/server/api/embedding_request.h"
#include "engine/server/api/limits.h"
#include "engine/server/api/message_request.h"
#include "engine/server/api/model_name.h"
#include "engine/server/api/prompts.h"
#include "engine/server/api/response_format.h"
#include "engine/server/api/response_request.h"
#include "engine/server/api/structured_outputs.h"
#include "engine/server/api/tools.h"
#include "instructions/sample/ranges.h"

namespace serval::server {
namespace {

using nlohmann::json;

void read_prompts(TextRequest& request, const BodyFields& fields) {
  const char* name = request.path == TextPath::kChat ? "messages" : "prompt";
  const json* value = fields.find(name);
  if (value == nullptr) throw ApiError(400, "missing_parameter", fmt::format("{}: required", name), name);
  if (request.path == TextPath::kChat) {
    request.prompts = {parse_messages(*value)};
  } else {
    request.prompts = parse_prompts(*value, name, api_limit::kPrompts);
  }
}

float sampling_number(const BodyFields& fields, const SamplingRange& range, float fallback) {
  const auto found = fields.number(range.name);
  if (!found) return fallback;
  if (!range.holds(*found)) refuse_parameter(range.name, fmt::format("{}; limit: {}", *found, range.text()));
  return static_cast<float>(*found);
}

SamplingParams read_sampling(const BodyFields& fields, const SamplingParams& defaults) {
  SamplingParams sampling = defaults;
  sampling.temperature = sampling_number(fields, sampling_range::kTemperature, defaults.temperature);
  sampling.top_p = sampling_number(fields, sampling_range::kTopP, defaults.top_p);
  sampling.min_p = sampling_number(fields, sampling_range::kMinP, defaults.min_p);
  sampling.repetition_penalty =
      sampling_number(fields, sampling_range::kRepetitionPenalty, defaults.repetition_penalty);
  sampling.presence_penalty = sampling_number(fields, sampling_range::kPresencePenalty, 0);
  sampling.frequency_penalty = sampling_number(fields, sampling_range::kFrequencyPenalty, 0);
  sampling.repeat_last_n =
      static_cast<int>(fields.integer("repeat_last_n", -1, INT32_MAX).value_or(defaults.repeat_last_n));
  const int64_t top_k = fields.integer("top_k", -1, INT32_MAX).value_or(defaults.top_k);
  sampling.top_k = static_cast<int>(std::max<int64_t>(top_k, 0));
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : std::random_device()();
  sampling.stream = 0;
  return sampling;
}

int read_max_tokens(const BodyFields& fields, TextPath path) {
  const auto tokens = fields.integer("max_tokens", 0, INT32_MAX);
  if (path == TextPath::kCompletions) return static_cast<int>(tokens.value_or(api_limit::kCompletionTokens));
  const auto completion = fields.integer("max_completion_tokens", 0, INT32_MAX);
  if (tokens && completion && *tokens != *completion)
    refuse_parameter("max_completion_tokens", "max_tokens is set, too; set either, not both");
  const auto most = completion ? completion : tokens;
  return static_cast<int>(most.value_or(-1));
}

void check_array(const BodyFields& fields, const char* name) {
  const json* value = fields.find(name);
  if (value != nullptr && !value->is_array())
    refuse_parameter(name, shown_value(*value) + "; expected an array of strings");
}

std::vector<std::string> read_stop(const BodyFields& fields, TextPath path) {
  const bool is_message = path == TextPath::kMessages;
  const char* name = is_message ? "stop_sequences" : "stop";
  if (is_message) check_array(fields, name);
  return fields.filled_texts(name, api_limit::kStopStrings, api_limit::kStopBytes);
}

std::vector<std::string> read_bad_words(const BodyFields& fields) {
  check_array(fields, "bad_words");
  return fields.filled_texts("bad_words", api_limit::kBadWords, api_limit::kBadWordBytes);
}

// `n` and `best_of`. Needs `stream`.
void read_answers(TextRequest& request, const BodyFields& fields) {
  const int64_t n = fields.integer("n", 1, api_limit::kAnswers).value_or(1);
  const int64_t best_of = fields.integer("best_of", 1, api_limit::kAnswers).value_or(n);
  if (best_of < n) refuse_parameter("best_of", fmt::format("{}; limit: n ({}) or more", best_of, n));
  const size_t prompts = request.prompts.size();
  if (best_of * static_cast<int64_t>(prompts) > api_limit::kAnswers)
    refuse_parameter(best_of > n ? "best_of" : "n", fmt::format("{} answers to {} prompts; limit: {} answers",
                                                                best_of, prompts, api_limit::kAnswers));
  if (best_of > n && request.stream)
    refuse_parameter("best_of",
                     "more than n is not possible with stream: the best are known only at the end");
  request.answers = static_cast<int>(n);
  request.request.n = static_cast<int>(best_of);
}

int read_min_tokens(const BodyFields& fields, int max_tokens) {
  const auto least = static_cast<int>(fields.integer("min_tokens", 0, INT32_MAX).value_or(0));
  if (max_tokens >= 0 && least > max_tokens)
    refuse_parameter("min_tokens", fmt::format("{}; limit: max_tokens ({})", least, max_tokens));
  return least;
}

std::vector<LogitBias> read_logit_bias(const BodyFields& fields) {
  const json* biases = fields.find("logit_bias");
  if (biases == nullptr) return {};
  if (!biases->is_object()) refuse_parameter("logit_bias", shown_value(*biases) + "; expected an object");
  if (biases->size() > api_limit::kLogitBiases)
    refuse_parameter("logit_bias",
                     fmt::format("{} tokens; limit: {}", biases->size(), api_limit::kLogitBiases));
  std::vector<LogitBias> read;
  for (const auto& [id, bias] : biases->items()) {
    int32_t token = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token);
    if (error != std::errc() || end != id.data() + id.size() || token < 0)
      refuse_parameter("logit_bias", shown_value(id) + "; expected a token id");
    const auto value = bias.is_number() ? bias.get<double>() : std::nan("");
    if (!sampling_range::kLogitBias.holds(value))
      refuse_parameter("logit_bias", fmt::format("token {}: {}; expected a number, {}", token,
                                                 shown_value(bias), sampling_range::kLogitBias.text()));
    if (std::ranges::find(read, token, &LogitBias::token) != read.end())
      refuse_parameter("logit_bias", fmt::format("token {} is given twice", token));
    read.push_back({token, static_cast<float>(value)});
  }
  return read;
}

void read_logprobs(TextRequest& request, const BodyFields& fields) {
  const auto most = static_cast<int64_t>(sampling_range::kTopLogprobs.most);
  if (request.path == TextPath::kCompletions) {
    const auto likeliest = fields.integer("logprobs", 0, most);
    request.logprobs = likeliest.has_value();
    request.request.top_logprobs = static_cast<uint32_t>(likeliest.value_or(0));
    return;
  }
  request.logprobs = fields.boolean("logprobs").value_or(false);
  const int64_t likeliest = fields.integer("top_logprobs", 0, most).value_or(0);
  if (likeliest > 0 && !request.logprobs) refuse_parameter("top_logprobs", "needs logprobs");
  request.request.top_logprobs = static_cast<uint32_t>(likeliest);
}

// vLLM's parameter.
void read_prompt_logprobs(TextRequest& request, const BodyFields& fields) {
  const auto most = static_cast<int64_t>(sampling_range::kTopLogprobs.most);
  const auto likeliest = fields.integer("prompt_logprobs", 0, most);
  if (!likeliest) return;
  if (request.stream) refuse_parameter("prompt_logprobs", "not with stream; set either, not both");
  request.prompt_logprobs = static_cast<uint32_t>(*likeliest);
}

// The prompt's tokens are listed in `prompt_logprobs` or, with `echo`, before those of the answer.
void ask_for_prompt_logprobs(TextRequest& request) {
  request.request.prompt_logprobs = request.prompt_logprobs;
  if (!request.echo || !request.logprobs) return;
  const uint32_t echoed = request.request.top_logprobs;
  request.request.prompt_logprobs = std::max(echoed, request.prompt_logprobs.value_or(0));
}

void read_stream(TextRequest& request, const BodyFields& fields) {
  request.stream = fields.boolean("stream").value_or(false);
  const json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object())
    refuse_parameter("stream_options", shown_value(*options) + "; expected an object");
  if (!request.stream) refuse_parameter("stream_options", "needs stream");
  const BodyFields members(*options, "stream_options.");
  members.refuse_others({"include_usage", "include_obfuscation", "continuous_usage_stats"});
  for (const char* name : {"include_obfuscation", "continuous_usage_stats"}) {
    if (members.boolean(name).value_or(false))
      refuse_parameter(members.full_name(name), "true; only false is supported");
  }
  request.include_usage = members.boolean("include_usage").value_or(false);
}

// Parameters that do not work where the text is constrained.
void check_unconstrained(const TextRequest& request) {
  const char* constrains = request.tools.choice != ToolChoice::kNone   ? "tools"
                           : request.request.max_reasoning_tokens >= 0 ? "max_reasoning_tokens"
                                                                       : nullptr;
  if (constrains == nullptr) return;
  if (request.request.min_tokens > 0)
    refuse_parameter("min_tokens", fmt::format("not with {}; set either, not both", constrains));
  if (request.request.ignore_eos)
    refuse_parameter("ignore_eos", fmt::format("not with {}; set either, not both", constrains));
}

}  // namespace

TextRequest parse_text_request(const std::string& body, TextPath path, const ModelDefaults& defaults) {
  if (path == TextPath::kEmbeddings) return parse_embedding_request(body, defaults);
  const json parsed = parse_body(body);
  const BodyFields fields(parsed);
  TextRequest request{.path = path};
  Request& asked = request.request;
  if (path == TextPath::kResponses) {
    refuse_unsupported_response(parsed);
    check_model_name(fields, defaults.name);
    read_response(request, fields, body);
  } else if (path == TextPath::kMessages) {
    refuse_unsupported_message(parsed);
    check_model_name(fields, defaults.name);
    read_message(request, fields, body);
  } else {
    refuse_unsupported(parsed, path);
    check_model_name(fields, defaults.name);
    read_prompts(request, fields);
    if (path == TextPath::kCompletions) {
      const TokenizeOptions options = read_tokenize_options(fields);
      asked.special = options.special;
      asked.add_special_tokens = options.add_special_tokens;
    } else {
      asked.chat = read_chat_options(fields, body);
      request.tools = read_tools(fields, body, ToolShape::kChat);
    }
    asked.max_tokens = read_max_tokens(fields, path);
  }
  asked.sampling = read_sampling(fields, defaults.sampling);
  asked.min_tokens = read_min_tokens(fields, asked.max_tokens);
  asked.logit_bias = read_logit_bias(fields);
  asked.stop = read_stop(fields, path);
  asked.stop_token_ids = fields.token_ids("stop_token_ids", api_limit::kStopTokens);
  asked.include_stop_in_text = fields.boolean("include_stop_str_in_output").value_or(false);
  asked.bad_words = read_bad_words(fields);
  asked.cache_salt = read_cache_salt(fields);
  asked.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  asked.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  asked.speculative = fields.boolean("speculative").value_or(true);
  if (const auto most = fields.integer("max_reasoning_tokens", 0, INT32_MAX))
    asked.max_reasoning_tokens = static_cast<int>(*most);
  check_unconstrained(request);
  read_response_format(asked, fields, body);
  read_structured_outputs(request, fields, body);
  asked.priority =
      static_cast<int>(fields.integer("priority", -api_limit::kPriority, api_limit::kPriority).value_or(0));
  read_stream(request, fields);
  read_answers(request, fields);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.truncate_prompt_tokens = read_truncation(fields);
  read_logprobs(request, fields);
  request.echo = fields.boolean("echo").value_or(false);
  read_prompt_logprobs(request, fields);
  ask_for_prompt_logprobs(request);
  if (path != TextPath::kMessages) request.user = fields.text("user", api_limit::kNameBytes).value_or("");
  return request;
}

}  // namespace serval::server
