#include "engine/server/api/parameters.h"

#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "engine/include/serval/chat.h"
#include "engine/server/api/api_error.h"
#include "engine/server/api/body_fields.h"
#include "engine/server/api/limits.h"
#include "instructions/sample/ranges.h"

namespace serval::server {
namespace {

using nlohmann::json;

constexpr bool kYes = true, kNo = false;

std::vector<Parameter> sampling_parameters() {
  const std::string model_default = "the model's `generation_config.json`, else ";
  return {
      {"temperature", kYes, kYes, "number", model_default + "1", sampling_range::kTemperature.text(),
       "0: always the likeliest token"},
      {"top_p", kYes, kYes, "number", model_default + "1", sampling_range::kTopP.text(),
       "keeps the likeliest tokens that make up this much of the probability; 1: all"},
      {"top_k", kYes, kYes, "integer", model_default + "0", fmt::format("-1 to {}", INT32_MAX),
       "keeps this many of the likeliest tokens; 0 or -1: all"},
      {"min_p", kYes, kYes, "number", model_default + "0", sampling_range::kMinP.text(),
       "drops tokens less likely than this fraction of the likeliest token's probability"},
      {"repetition_penalty", kYes, kYes, "number", model_default + "1",
       sampling_range::kRepetitionPenalty.text(),
       "makes the tokens that `repeat_last_n` looks back on less likely; 1: off"},
      {"repeat_last_n", kYes, kYes, "integer", "-1", sampling_range::kRepeatLastN.text(),
       "tokens that `repetition_penalty` looks back on; 0: none, -1: all"},
      {"presence_penalty", kYes, kYes, "number", "0", sampling_range::kPresencePenalty.text(),
       "subtracted from the logits of tokens that the answer already has"},
      {"frequency_penalty", kYes, kYes, "number", "0", sampling_range::kFrequencyPenalty.text(),
       "subtracted from a token's logit once for each time that the answer has the token"},
  };
}

std::vector<Parameter> format_parameters() {
  return {
      {"response_format", kYes, kYes, "object", "`{\"type\": \"text\"}`",
       "`type` is `text`, `json_object` or `json_schema`; not with `min_tokens` or `ignore_eos`",
       "the text is JSON: any object, or valid under `json_schema.schema` ([below](#json-output))"},
      {"structured_outputs", kYes, kYes, "object", "none",
       "one of `json`, `regex`, `choice`, `grammar` and `json_object`; not with `response_format`, "
       "`min_tokens` or `ignore_eos`",
       "the format of the text, as vLLM's ([below](#other-formats))"},
      {"guided_json", kYes, kYes, "object or string", "none", "as `structured_outputs`",
       "`structured_outputs.json`: a JSON schema"},
      {"guided_regex", kYes, kYes, "string", "none", "as `structured_outputs`",
       "`structured_outputs.regex`: an expression that the whole text matches"},
      {"guided_choice", kYes, kYes, "array of strings", "none", "as `structured_outputs`",
       "`structured_outputs.choice`: the text is one of these"},
      {"guided_grammar", kYes, kYes, "string", "none", "as `structured_outputs`",
       "`structured_outputs.grammar`: a grammar in GBNF ([grammars.md](grammars.md))"},
      {"grammar", kYes, kYes, "string", "none", "as `structured_outputs`",
       "llama.cpp's name of `guided_grammar`; an empty one is none"},
      {"json_schema", kYes, kYes, "object or string", "none", "as `structured_outputs`",
       "llama.cpp's name of `guided_json`"},
  };
}

std::vector<Parameter> conversation_parameters() {
  return {
      {"tools", kNo, kYes, "array", "none", fmt::format("0 to {}", kMaxFunctions),
       "functions that the model may call ([below](#tools))"},
      {"tool_choice", kNo, kYes, "string or object", "`auto` with tools, else `none`",
       "`none`, `auto`, `required` or `{\"type\": \"function\", \"function\": {\"name\": …}}`",
       "whether the answer may, or must, consist of calls"},
      {"parallel_tool_calls", kNo, kYes, "boolean", "true", "", "false: at most one call"},
      {"chat_template_kwargs", kNo, kYes, "object", "none", "",
       "further variables of the chat template, such as `enable_thinking`"},
      {"add_generation_prompt", kNo, kYes, "boolean", "true; false with `continue_final_message`", "",
       "the prompt ends with the beginning of the assistant's message"},
      {"continue_final_message", kNo, kYes, "boolean", "false", "not with `add_generation_prompt`",
       "the answer continues the last message"},
      {"max_reasoning_tokens", kNo, kYes, "integer", "none",
       fmt::format("0 to {}; for models that reason", INT32_MAX),
       "after so many tokens of reasoning `</think>` is forced ([below](#reasoning))"},
  };
}

// Parameters that vLLM adds to OpenAI's.
std::vector<Parameter> more_parameters() {
  using namespace api_limit;
  return {
      {"include_stop_str_in_output", kYes, kYes, "boolean", "false", "",
       "the text contains the stop string or the text of the stop token that ended it"},
      {"bad_words", kYes, kYes, "array of strings", "none",
       fmt::format("{} strings of 1 to {} bytes", kBadWords, kBadWordBytes),
       "no token is drawn that would complete one of these, as the tokenizer writes it alone and after a "
       "space, unless nothing else can follow in JSON output"},
      {"return_token_ids", kYes, kYes, "boolean", "false", "",
       "adds `prompt_token_ids`, and the ids of all tokens of the answer as `token_ids`"},
      {"truncate_prompt_tokens", kYes, kYes, "integer", "none", "-1, or 1 to the context less one",
       "keeps only this many of the prompt's last tokens; -1: as many as the context has room for beside "
       "`max_tokens`"},
      {"cache_salt", kYes, kYes, "string", "none", fmt::format("1 to {} bytes", kSaltBytes),
       "prompts are found in the KV cache only if they were sent with the same salt"},
      {"speculative", kYes, kYes, "boolean", "true", "",
       "false: no drafts, where the server makes them (`--spec`); they never change the answer"},
  };
}

std::vector<Parameter> make_parameters() {
  using namespace api_limit;
  const std::string names = fmt::format("{} bytes", kNameBytes);
  const std::string stops = fmt::format("{} strings of 1 to {} bytes", kStopStrings, kStopBytes);
  const std::string answers = fmt::format("1 to {}; of all prompts together {}", kAnswers, kAnswers);
  std::vector<Parameter> all = {
      {"model", kYes, kYes, "string", "the model that is served", names,
       "its name, as `/v1/models` lists it"},
      {"prompt", kYes, kNo, "string, token ids, or an array of either", "required",
       fmt::format("1 to {} prompts; tokens: the context less one", kPrompts), "the text to continue"},
      {"add_special_tokens", kYes, kNo, "boolean", "true", "",
       "adds the model's special tokens, such as BOS, to a text prompt"},
      {"parse_special", kYes, kNo, "boolean", "true", "",
       "control tokens written in a text prompt become these tokens; false: they stay text"},
      {"messages", kNo, kYes, "array", "required", fmt::format("1 to {}", kMessages),
       "`role` is `system`, `developer` (read as `system`), `user`, `assistant` or `tool`, `content` a "
       "string or "
       "parts of `type` `text`, `name` what the chat template may write. The assistant's may have "
       "`tool_calls` and "
       "`reasoning_content`, a tool's has `tool_call_id`. Control tokens in them are text"},
      {"max_tokens", kYes, kYes, "integer",
       fmt::format("{}; chat: what the context leaves", kCompletionTokens), fmt::format("0 to {}", INT32_MAX),
       "largest number of tokens of an answer; the end of the context may end it earlier"},
      {"max_completion_tokens", kNo, kYes, "integer", "as `max_tokens`", fmt::format("0 to {}", INT32_MAX),
       "another name of `max_tokens`; set only one of them"},
      {"logit_bias", kYes, kYes, "object", "none",
       fmt::format("{} tokens, each {}", kLogitBiases, sampling_range::kLogitBias.text()),
       "token id → what is added to its logit"},
      {"min_tokens", kYes, kYes, "integer", "0", "0 to `max_tokens`",
       "least number of tokens of an answer: before it, no token that ends the answer is drawn; a stop "
       "string still ends it"},
      {"seed", kYes, kYes, "integer", "random", "64 bits", "the same seed gives the same answers"},
      {"n", kYes, kYes, "integer", "1", answers, "number of answers to each prompt, which is processed once"},
      {"best_of", kYes, kNo, "integer", "`n`",
       fmt::format("`n` to {}; more than `n` not with `stream`", kAnswers),
       "number of answers to make; returns the `n` whose tokens have the highest mean log probability, the "
       "best first"},
      {"stop", kYes, kYes, "string or array", "none", stops, "the text ends before the first of these"},
      {"stop_token_ids", kYes, kYes, "array of integers", "none",
       fmt::format("{}, the model's own included", kStopTokens), "the text ends before the first of these"},
      {"ignore_eos", kYes, kYes, "boolean", "false", "", "continues after an end-of-text token"},
      {"skip_special_tokens", kYes, kYes, "boolean", "true", "",
       "leaves control tokens out of the text; false: includes them, except the one that ends it"},
      {"logprobs", kYes, kYes, "completions: integer; chat: boolean", "none",
       fmt::format("{}; `true`", sampling_range::kTopLogprobs.text()),
       "log probabilities of the answer's tokens and, at each position, of this many likeliest tokens, from "
       "the model's own softmax"},
      {"top_logprobs", kNo, kYes, "integer", "0", sampling_range::kTopLogprobs.text() + ", with `logprobs`",
       "adds the log probabilities of this many likeliest tokens at each position"},
      {"prompt_logprobs", kYes, kYes, "integer", "none",
       sampling_range::kTopLogprobs.text() + ", not with `stream`",
       "log probabilities of the prompt's tokens and, in the place of each, of this many likeliest tokens"},
      {"echo", kYes, kNo, "boolean", "false", "",
       "the text begins with the prompt; with `logprobs`, the lists of tokens do, too"},
      {"stream", kYes, kYes, "boolean", "false", "", "answers with server-sent events, one for each token"},
      {"stream_options", kYes, kYes, "object", "none", "only with `stream`",
       "`include_usage`: a last event has the token counts"},
      {"priority", kYes, kYes, "integer", "0", fmt::format("{} to {}", -kPriority, kPriority),
       "smaller values are served first"},
      {"user", kYes, kYes, "string", "none", names, "appears in the request's log line"},
  };
  const auto insert_before = [&all](std::string_view name, const std::vector<Parameter>& more) {
    all.insert(std::ranges::find(all, name, &Parameter::name), more.begin(), more.end());
  };
  insert_before("logit_bias", sampling_parameters());
  insert_before("logprobs", format_parameters());
  insert_before("logprobs", more_parameters());
  insert_before("max_tokens", conversation_parameters());
  return all;
}

// A member of OpenAI's or vLLM's requests that is accepted with these values because they have no effect.
struct Neutral {
  std::string_view name;
  json values;  // an array
  bool completions = false, chat = false, responses = false;
};

const std::vector<Neutral>& neutral_members() {
  constexpr bool kTaken = true, kAbsent = false;
  const json no = json::array({false}), yes = json::array({true}), either = json::array({true, false});
  const json empty_list = json::array({json::array()}), empty_object = json::array({json::object()});
  const json unforced = json::array({"none", "auto"});
  static const std::vector<Neutral> all = {
      {"tools", empty_list, kTaken, kAbsent, kAbsent},
      {"tool_choice", unforced, kTaken, kAbsent, kAbsent},
      {"parallel_tool_calls", either, kTaken, kAbsent, kAbsent},
      {"functions", empty_list, kTaken, kTaken, kAbsent},
      {"function_call", unforced, kTaken, kTaken, kAbsent},
      {"documents", empty_list, kAbsent, kTaken, kAbsent},
      {"modalities", json::array({json::array({"text"})}), kTaken, kTaken, kAbsent},
      {"suffix", json::array({""}), kTaken, kAbsent, kAbsent},
      {"echo", no, kAbsent, kTaken, kAbsent},
      {"metadata", empty_object, kTaken, kTaken, kTaken},
      {"include", empty_list, kAbsent, kAbsent, kTaken},
      {"store", no, kTaken, kTaken, kTaken},
      {"background", no, kAbsent, kAbsent, kTaken},
      {"truncation", json::array({"disabled"}), kAbsent, kAbsent, kTaken},
      {"service_tier", json::array({"auto", "default"}), kTaken, kTaken, kTaken},
      {"add_special_tokens", no, kAbsent, kTaken, kAbsent},
      {"parse_special", no, kAbsent, kTaken, kAbsent},
      {"skip_special_tokens", yes, kAbsent, kAbsent, kTaken},
      {"spaces_between_special_tokens", yes, kTaken, kTaken, kAbsent},
      {"use_beam_search", no, kTaken, kTaken, kAbsent},
      {"length_penalty", json::array({1}), kTaken, kTaken, kAbsent},
      {"guided_decoding_backend", json::array({"auto"}), kTaken, kTaken, kTaken},
      {"return_tokens_as_token_ids", no, kTaken, kTaken, kAbsent},
  };
  return all;
}

bool is_of(const Neutral& member, TextPath path) {
  switch (path) {
    case TextPath::kCompletions:
      return member.completions;
    case TextPath::kChat:
      return member.chat;
    case TextPath::kResponses:
      return member.responses;
    case TextPath::kMessages:
    case TextPath::kEmbeddings:
      break;
  }
  return false;
}

// A table: each member with its values and paths.
std::string neutral_list() {
  std::string list;
  for (const Neutral& member : neutral_members()) {
    std::string values;
    for (const json& value : member.values)
      values += fmt::format("{}`{}`", values.empty() ? "" : " or ", value.dump());
    std::string paths;
    const auto add = [&](bool is, const char* path) {
      if (is) paths += (paths.empty() ? "" : ", ") + std::string(path);
    };
    add(member.completions, "completions");
    add(member.chat, "chat");
    add(member.responses, "responses");
    list += fmt::format("| `{}` | {} | {} |\n", member.name, values, paths);
  }
  return "| accepted without effect | values | paths |\n| --- | --- | --- |\n" + list;
}

}  // namespace

bool has_no_effect(TextPath path, std::string_view name, const json& value) {
  if (value.is_null()) return true;
  const auto& all = neutral_members();
  const auto member = std::ranges::find(all, name, &Neutral::name);
  return member != all.end() && is_of(*member, path) &&
         std::ranges::find(member->values, value) != member->values.end();
}

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
  return table + "\n" + neutral_list();
}

void refuse_unsupported(const json& body, TextPath path) {
  for (const auto& [name, value] : body.items()) {
    const auto known = std::ranges::find(parameters(), name, &Parameter::name);
    const bool is_known =
        known != parameters().end() && (path == TextPath::kChat ? known->chat : known->completions);
    if (is_known || has_no_effect(path, name, value)) continue;
    BodyFields(json{{name, true}}).refuse_others({});
  }
}

}  // namespace serval::server
