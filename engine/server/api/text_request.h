// Requests of /v1/completions, /v1/chat/completions, /v1/responses, /v1/messages and /v1/embeddings, parsed
// and checked, with prompts not yet encoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/include/serval/engine.h"
#include "engine/server/api/parameters.h"

namespace serval::server {

// A text, token ids, or a conversation.
using Prompt = std::variant<std::string, std::vector<int32_t>, std::vector<ChatMessage>>;

// Parameters that only /v1/responses has.
struct ResponseRequest {
  std::string instructions = {};
  std::string tools = "[]", tool_choice = R"("auto")";  // as they are given, JSON
  std::string format = R"({"type":"text"})";            // `text.format`, JSON
};

// Tools as a request states them. Request::tools and Request::chat are made from them (service/encode.h),
// once the model's format is known.
struct RequestTools {
  std::vector<ToolFunction> functions = {};
  std::string definitions = {};  // for the chat template: JSON, [{"type": "function", "function": {…}}, …]
  ToolChoice choice = ToolChoice::kNone;
  std::string chosen = {};  // with kRequired: the only function that may be called; empty: any
  bool parallel = true;
};

struct TextRequest {
  TextPath path = TextPath::kCompletions;
  std::vector<Prompt> prompts = {};  // one for a chat
  // The parameters of each prompt's request, without the prompt. sampling.stream is that of the first
  // prompt's first answer.
  Request request = {};
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool echo = false;
  std::optional<uint32_t> prompt_logprobs = {};  // vLLM's parameter: this many likeliest tokens
  // Number of the request.n answers to each prompt that are returned: those with the highest mean log
  // probability of their tokens. request.n: all, in their order.
  int answers = 1;
  bool return_token_ids = false;
  std::vector<std::vector<int32_t>> prompt_ids =
      {};  // of each prompt once it is encoded, if returned or counted
  // Keeps only this many of a prompt's last tokens; -1: as many as the context has room for beside
  // max_tokens; 0: all.
  int truncate_prompt_tokens = 0;
  bool counts_only = false;  // the prompt is only encoded to count its tokens, so it may exceed the context
  bool base64 = false;       // embeddings are written in base64
  std::string user = {};
  RequestTools tools = {};
  // The parameter that states the format of the text, for messages about it.
  std::string format_name = "response_format";
  ResponseRequest response = {};
};

// Values for parameters that a request does not have.
struct ModelDefaults {
  std::string name;  // the only value allowed for `model`
  SamplingParams sampling;
};

// Throws ApiError: 404 for another model, 400 for anything else that is wrong.
TextRequest parse_text_request(const std::string& body, TextPath path, const ModelDefaults& defaults);

}  // namespace serval::server
