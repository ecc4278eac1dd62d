// Requests of /v1/completions, /v1/chat/completions and /v1/responses, parsed and checked; nothing is encoded
// yet.
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

// What only requests of /v1/responses have.
struct ResponseRequest {
  std::string instructions = {};
  std::string format = R"({"type":"text"})";  // `text.format`, JSON
};

struct TextRequest {
  TextPath path = TextPath::kCompletions;
  std::vector<Prompt> prompts = {};  // one for a chat
  // All but the prompt, of each prompt. sampling.stream is of the first prompt's first answer.
  Request request = {};
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool echo = false;
  std::string user = {};
  ResponseRequest response = {};
};

// What a model gives to requests that say nothing themselves.
struct ModelDefaults {
  std::string name;  // what `model` must be, where it is given
  SamplingParams sampling;
};

// Throws ApiError: 404 for another model, else 400.
TextRequest parse_text_request(const std::string& body, TextPath path, const ModelDefaults& defaults);

}  // namespace serval::server
