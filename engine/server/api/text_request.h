// Requests of /v1/completions, /v1/chat/completions and /v1/responses, parsed and checked, with prompts not
// yet encoded.
#pragma once

#include <cstdint>
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
  std::string format = R"({"type":"text"})";  // `text.format`, JSON
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
  std::string user = {};
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
