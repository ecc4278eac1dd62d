#include "engine/core/request.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "engine/core/sampling_parameters.h"
#include "models/tokenizer/utf8.h"
#include "vm/state/slots.h"

namespace serval {
namespace {

[[noreturn]] void refuse(const std::string& line) {
  throw Error(ErrorKind::kUsage, line);
}

template <typename T>
void require(bool inside, const char* field, T found, const char* limit) {
  if (!inside) refuse(fmt::format("{}: {}; limit: {}", field, found, limit));
}

void check_range(const std::string& field, const SamplingRange& range, double found) {
  if (range.holds(found)) return;
  refuse(fmt::format("{}: {}; limit: {}", field, static_cast<float>(found), range.text()));
}

void check_logit_bias(const std::vector<LogitBias>& biases) {
  if (biases.size() > RequestLimits::kMaxLogitBiases) {
    refuse(fmt::format("logit_bias: {} tokens; limit: {}", biases.size(), RequestLimits::kMaxLogitBiases));
  }
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < biases.size(); ++i) {
    check_range(fmt::format("logit_bias[{}]", i), sampling_range::kLogitBias, biases[i].bias);
    tokens.push_back(biases[i].token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice != tokens.end()) refuse(fmt::format("logit_bias: token {} is given twice", *twice));
}

void check_sampling(const SamplingParams& p) {
  for (const SamplingParameter& parameter : sampling_parameters())
    check_range(parameter.range.name, parameter.range, parameter.of(p));
}

bool is_utf8(const std::string& text) {
  std::string storage;
  return utf8_lossy(text, &storage).data() == text.data();
}

// Checks strings to look for in the text.
void check_texts(const char* field, const std::vector<std::string>& texts, size_t most, size_t most_bytes) {
  if (texts.size() > most) refuse(fmt::format("{}: {} strings; limit: {}", field, texts.size(), most));
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) refuse(fmt::format("{}[{}]: empty; expected at least 1 byte", field, i));
    if (texts[i].size() > most_bytes)
      refuse(fmt::format("{}[{}]: {} bytes; limit: {}", field, i, texts[i].size(), most_bytes));
    if (!is_utf8(texts[i])) refuse(fmt::format("{}[{}]: not UTF-8, so no text can contain it", field, i));
  }
}

// The field because of which the text is constrained; null: none.
const char* constraining_field(const Request& request, const std::optional<grammar::Format>& format) {
  if (format) return grammar::name_of(format->kind);
  if (request.tools.choice != ToolChoice::kNone) return "tools";
  return request.max_reasoning_tokens >= 0 ? "max_reasoning_tokens" : nullptr;
}

void check_tools(const ToolRules& tools) {
  if (tools.choice == ToolChoice::kNone) return;
  if (tools.format == ToolFormat::kNone)
    refuse("tools: format: none; expected one in which calls are written");
  const size_t functions = tools.functions.size();
  require(functions >= 1 && functions <= kMaxFunctions, "tools: functions", functions, "1 to 128");
  std::set<std::string_view> names;
  for (const ToolFunction& function : tools.functions) {
    if (function.name.empty()) refuse("tools: a function without a name");
    if (!names.insert(function.name).second)
      refuse(fmt::format("tools: function {} is given twice", function.name));
  }
}

void check_constraints(const Request& request) {
  check_tools(request.tools);
  require(request.max_reasoning_tokens >= -1, "max_reasoning_tokens", request.max_reasoning_tokens,
          "-1 (no limit) or more");
  if (request.max_reasoning_tokens >= 0 && request.reasoning == Reasoning::kNone)
    refuse("max_reasoning_tokens: the answer has no reasoning");
  const std::optional<grammar::Format> format = format_of(request);
  if (format && (!is_utf8(format->text) || !std::ranges::all_of(format->choices, is_utf8)))
    refuse(fmt::format("{}: not UTF-8", grammar::name_of(format->kind)));
  const char* name = constraining_field(request, format);
  if (name == nullptr) return;
  if (request.min_tokens > 0) refuse(fmt::format("{}: not with min_tokens; set either, not both", name));
  if (request.ignore_eos) refuse(fmt::format("{}: not with ignore_eos; set either, not both", name));
}

void check_prompt_logprobs(const Request& request) {
  if (request.prompt_logprobs)
    check_range("prompt_logprobs", sampling_range::kTopLogprobs, *request.prompt_logprobs);
  require(request.prompt_logprobs_from >= 1, "prompt_logprobs_from", request.prompt_logprobs_from,
          "1 (the second token: the first has none) or more");
}

size_t text_bytes(const Request& request) {
  size_t bytes = request.prompt.size();
  for (const ChatMessage& message : request.messages) {
    bytes += message.role.size() + message.content.size() + message.reasoning_content.size();
    for (const ToolCall& call : message.tool_calls) bytes += call.name.size() + call.arguments.size();
  }
  return bytes + request.chat.tools.size() + request.chat.variables.size();
}

void check_token_id(const char* field, size_t index, int32_t id, int32_t vocab_size) {
  if (id >= 0 && id < vocab_size) return;
  refuse(fmt::format("{}[{}]: token {}; limit: 0 to {} (the vocabulary)", field, index, id, vocab_size - 1));
}

}  // namespace

void check_token_ids(const char* field, std::span<const int32_t> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) check_token_id(field, i, ids[i], vocab_size);
}

void check_messages(std::span<const ChatMessage> messages) {
  if (messages.empty()) refuse("messages: empty; expected at least 1");
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant" || role == "tool") continue;
    refuse(fmt::format("messages[{}]: role {:?}; expected system, user, assistant or tool", i, role));
  }
}

std::optional<grammar::Format> format_of(const Request& request) {
  using enum grammar::FormatKind;
  std::vector<grammar::Format> formats;
  if (request.json_object) formats.push_back({.kind = kJsonObject});
  if (!request.json_schema.empty()) formats.push_back({.kind = kJsonSchema, .text = request.json_schema});
  if (!request.regex.empty()) formats.push_back({.kind = kRegex, .text = request.regex});
  if (!request.choice.empty()) formats.push_back({.kind = kChoice, .choices = request.choice});
  if (!request.grammar.empty()) formats.push_back({.kind = kGbnf, .text = request.grammar});
  if (formats.empty()) return std::nullopt;
  if (formats.size() > 1) {
    refuse(fmt::format("{} and {}: set either, not both", grammar::name_of(formats[0].kind),
                       grammar::name_of(formats[1].kind)));
  }
  return std::move(formats.front());
}

bool PreparedRequest::is_own_stop_token(int32_t token) const {
  const auto own = stop_tokens.begin() + static_cast<std::ptrdiff_t>(model_stop_tokens);
  return std::find(own, stop_tokens.end(), token) != stop_tokens.end() &&
         std::find(stop_tokens.begin(), own, token) == own;
}

uint32_t PreparedRequest::positions() const {
  const auto length = static_cast<uint32_t>(prompt.size());
  return max_tokens == 0 ? length : length + max_tokens - 1;
}

void check_request(const Request& request) {
  check_sampling(request.sampling);
  check_logit_bias(request.logit_bias);
  require(request.max_tokens >= -1, "max_tokens", request.max_tokens,
          "-1 (until the context is full) or more");
  check_range("min_tokens", sampling_range::kMinTokens, request.min_tokens);
  if (request.max_tokens >= 0 && request.min_tokens > request.max_tokens)
    refuse(fmt::format("min_tokens: {}; limit: max_tokens ({})", request.min_tokens, request.max_tokens));
  check_constraints(request);
  check_range("top_logprobs", sampling_range::kTopLogprobs, request.top_logprobs);
  check_prompt_logprobs(request);
  check_texts("stop", request.stop, RequestLimits::kMaxStopStrings, RequestLimits::kMaxStopBytes);
  check_texts("bad_words", request.bad_words, RequestLimits::kMaxBadWords, RequestLimits::kMaxBadWordBytes);
  require(request.cache_salt.size() <= RequestLimits::kMaxSaltBytes, "cache_salt bytes",
          request.cache_salt.size(), "256");
  require(request.n >= 1 && request.n <= RequestLimits::kMaxAnswers, "n", request.n, "1 to 128");
  // The negated comparison rejects NaN too.
  if (request.deadline_ms && !(*request.deadline_ms > 0)) {
    refuse(fmt::format("deadline_ms: {}; it is in the past; limit: more than 0", *request.deadline_ms));
  }
  const bool has_ids = !request.prompt_ids.empty();
  if (has_ids && !request.messages.empty()) refuse("prompt_ids and messages: set either, not both");
  if (!has_ids && text_bytes(request) == 0) refuse("prompt: empty; expected at least 1 token");
  require(text_bytes(request) <= RequestLimits::kMaxPromptBytes, "prompt bytes", text_bytes(request),
          "64 MiB");
}

namespace {

void add_stop_tokens(PreparedRequest& prepared, const Request& request, const ModelLimits& limits) {
  check_token_ids("stop_token_ids", request.stop_token_ids, limits.vocab_size);
  if (!request.ignore_eos) prepared.stop_tokens = limits.stop_tokens;
  prepared.model_stop_tokens = prepared.stop_tokens.size();
  for (const int32_t token : request.stop_token_ids) {
    const auto& known = prepared.stop_tokens;
    if (std::find(known.begin(), known.end(), token) == known.end()) prepared.stop_tokens.push_back(token);
  }
  if (prepared.stop_tokens.size() <= kMaxStopTokens) return;
  refuse(fmt::format("stop_token_ids: {} tokens, {} of them the model's own; limit: {}",
                     prepared.stop_tokens.size(), prepared.model_stop_tokens, kMaxStopTokens));
}

void add_pooling(PreparedRequest& prepared, const Request& request, const ModelLimits& limits) {
  constexpr const char* kReason = "this engine computes embeddings and generates nothing";
  if (request.max_tokens != 0)
    refuse(fmt::format("max_tokens: {}; limit: 0: {}", request.max_tokens, kReason));
  if (request.prompt_logprobs) refuse(fmt::format("prompt_logprobs: {}", kReason));
  require(request.n == 1, "n", request.n, "1 for an embedding");
  const auto hidden = static_cast<int>(limits.hidden_size);
  if (request.dimensions < 0 || request.dimensions > hidden) {
    refuse(fmt::format("dimensions: {}; limit: 1 to {} (the model's hidden size), or 0 for all",
                       request.dimensions, hidden));
  }
  prepared.pooling = limits.pooling;
  prepared.pooling->normalize = request.normalize.value_or(limits.pooling->normalize);
  prepared.dimensions = static_cast<uint32_t>(request.dimensions > 0 ? request.dimensions : hidden);
}

void refuse_pooling(const Request& request) {
  if (request.dimensions == 0 && !request.normalize) return;
  refuse(fmt::format("{}: this engine generates and computes no embeddings",
                     request.dimensions != 0 ? "dimensions" : "normalize"));
}

}  // namespace

PreparedRequest prepare_request(const Request& request, std::vector<int32_t> prompt,
                                const ModelLimits& limits) {
  if (prompt.empty()) refuse("prompt: empty; expected at least 1 token");
  const size_t most = limits.pooling ? limits.context : limits.context - 1;
  if (prompt.size() > most)
    refuse(fmt::format("prompt: {} tokens; limit: {} (context {})", prompt.size(), most, limits.context));
  check_token_ids("prompt_ids", prompt, limits.vocab_size);
  for (size_t i = 0; i < request.logit_bias.size(); ++i)
    check_token_id("logit_bias", i, request.logit_bias[i].token, limits.vocab_size);
  const auto length = static_cast<uint32_t>(prompt.size());
  const uint32_t room = limits.context - length;
  PreparedRequest prepared;
  prepared.prompt = std::move(prompt);
  prepared.sampling = request.sampling;
  prepared.max_tokens =
      request.max_tokens < 0 ? room : std::min(room, static_cast<uint32_t>(request.max_tokens));
  prepared.min_tokens = std::min(prepared.max_tokens, static_cast<uint32_t>(request.min_tokens));
  prepared.top_logprobs = std::min(request.top_logprobs, static_cast<uint32_t>(limits.vocab_size));
  if (request.prompt_logprobs) {
    prepared.prompt_logprobs = std::min(*request.prompt_logprobs, static_cast<uint32_t>(limits.vocab_size));
    prepared.prompt_logprobs_from = std::min(static_cast<uint32_t>(request.prompt_logprobs_from), length);
  }
  prepared.logit_bias = request.logit_bias;
  prepared.stop = request.stop;
  prepared.include_stop_in_text = request.include_stop_in_text;
  prepared.cache_salt = request.cache_salt;
  prepared.answers = request.n;
  prepared.priority = request.priority;
  prepared.deadline_ms = request.deadline_ms;
  prepared.reuse_prefix = request.reuse_prefix;
  prepared.speculative = request.speculative;
  prepared.skip_special_tokens = request.skip_special_tokens;
  add_stop_tokens(prepared, request, limits);
  limits.pooling ? add_pooling(prepared, request, limits) : refuse_pooling(request);
  return prepared;
}

}  // namespace serval
