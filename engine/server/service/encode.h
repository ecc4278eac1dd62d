// Encodes a request's prompts as token ids and checks them against the model's limits.
#pragma once

#include "engine/answer/formats.h"
#include "engine/include/serval/engine.h"
#include "engine/server/service/generation.h"

namespace serval::server {

// How the model writes calls of tools and reasoning.
struct AnswerFormats {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  // The chat template does not write tools. A message of the system describes them.
  bool describe_tools = false;
};
// `tool_parser` and `reasoning_parser` are names of formats; empty: what the chat template shows.
AnswerFormats answer_formats(const ModelInfo& info, const std::string& tool_parser,
                             const std::string& reasoning_parser);

// How a prompt is encoded: `text` for a text, the others for a conversation.
struct PromptOptions {
  TokenizeOptions text = {};
  ChatOptions chat = {};
  AnswerFormats formats = {};
};
// The token ids of a prompt. Messages call it `name`. Throws ApiError (400). Thread-safe.
std::vector<int32_t> encode_prompt(const Engine& engine, const Prompt& prompt, const PromptOptions& options,
                                   const std::string& name);

// Throws ApiError (400) if a prompt cannot be encoded or does not fit into the context, or if the JSON format
// or the tools cannot be compiled. Thread-safe.
EncodedRequest encode(const Engine& engine, TextRequest text, const AnswerFormats& formats);

}  // namespace serval::server
