#include "engine/server/service/encode.h"

#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

struct Encoder {
  const Engine& engine;

  std::vector<int32_t> operator()(const std::string& text) const { return engine.tokenize(text); }
  std::vector<int32_t> operator()(const std::vector<int32_t>& ids) const { return ids; }
  std::vector<int32_t> operator()(const std::vector<ChatMessage>& messages) const {
    return engine.tokenize_chat(messages);
  }
};

struct Echo {
  const Engine& engine;

  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const std::vector<int32_t>& ids) const { return engine.detokenize(ids); }
  std::string operator()(const std::vector<ChatMessage>&) const { return {}; }
};

void check_length(const std::vector<int32_t>& ids, const std::string& name, const ModelInfo& info) {
  const auto context = static_cast<size_t>(info.context);
  if (ids.size() >= context) {
    throw ApiError(
        400, "context_length_exceeded",
        fmt::format("{}: {} tokens; limit: {} (context {})", name, ids.size(), context - 1, context), name);
  }
  for (const int32_t id : ids) {
    if (id >= info.vocab_size)
      refuse_parameter(name,
                       fmt::format("token {}; limit: 0 to {} (the vocabulary)", id, info.vocab_size - 1));
  }
}

const char* name_of_prompt(TextPath path) {
  switch (path) {
    case TextPath::kChat:
      return "messages";
    case TextPath::kResponses:
      return "input";
    case TextPath::kCompletions:
      break;
  }
  return "prompt";
}

// While a worker has the request: the engine, when it comes to run, finds it done.
void compile_format(const Engine& engine, const Request& request, TextPath path) {
  try {
    engine.compile_json(request);
  } catch (const Error& error) {
    refuse_parameter(path == TextPath::kResponses ? "text.format" : "response_format", error.what());
  }
}

}  // namespace

EncodedRequest encode(const Engine& engine, TextRequest text) {
  compile_format(engine, text.request, text.path);
  EncodedRequest encoded{.text = std::move(text), .prompts = {}, .echoes = {}};
  const std::string name = name_of_prompt(encoded.text.path);
  try {
    for (const Prompt& prompt : encoded.text.prompts) {
      Request request = encoded.text.request;
      request.sampling.stream =
          static_cast<uint32_t>(encoded.prompts.size()) * static_cast<uint32_t>(request.n);
      request.prompt_ids = std::visit(Encoder{engine}, prompt);
      check_length(request.prompt_ids, name, engine.info());
      encoded.prompts.push_back(std::move(request));
      encoded.echoes.push_back(encoded.text.echo ? std::visit(Echo{engine}, prompt) : std::string());
    }
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", error.what(), name);
  }
  encoded.text.prompts.clear();
  return encoded;
}

}  // namespace serval::server
