#include "engine/server/service/encode.h"

#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

struct Encoder {
  const Engine& engine;
  const TokenizeOptions& options;

  std::vector<int32_t> operator()(const std::string& text) const { return engine.tokenize(text, options); }
  std::vector<int32_t> operator()(const std::vector<int32_t>& ids) const { return ids; }
  std::vector<int32_t> operator()(const std::vector<ChatMessage>& messages) const {
    return engine.tokenize_chat(messages);
  }
};

struct Echo {
  const Engine& engine;
  bool special;

  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(const std::vector<int32_t>& ids) const { return engine.detokenize(ids, special); }
  std::string operator()(const std::vector<ChatMessage>&) const { return {}; }
};

void check_id(int32_t id, const std::string& name, const ModelInfo& info) {
  if (id < info.vocab_size) return;
  refuse_parameter(name, fmt::format("token {}; limit: 0 to {} (the vocabulary)", id, info.vocab_size - 1));
}

// Checked before the request waits: the engine would refuse them only after a stream may have begun.
void check_ids(const Request& request, const ModelInfo& info) {
  for (const LogitBias& bias : request.logit_bias) check_id(bias.token, "logit_bias", info);
  for (const int32_t id : request.stop_token_ids) check_id(id, "stop_token_ids", info);
}

void check_length(const std::vector<int32_t>& ids, const std::string& name, const ModelInfo& info) {
  const auto context = static_cast<size_t>(info.context);
  if (ids.size() >= context) {
    throw ApiError(
        400, "context_length_exceeded",
        fmt::format("{}: {} tokens; limit: {} (context {})", name, ids.size(), context - 1, context), name);
  }
  for (const int32_t id : ids) check_id(id, name, info);
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

// Compiles the format on the worker's thread. The engine then finds it in its cache.
void compile_format(const Engine& engine, const TextRequest& text) {
  try {
    engine.compile_constraint(text.request);
  } catch (const Error& error) {
    refuse_parameter(text.format_name, error.what());
  }
}

}  // namespace

std::vector<int32_t> encode_prompt(const Engine& engine, const Prompt& prompt, const TokenizeOptions& options,
                                   const std::string& name) {
  const bool is_chat = std::holds_alternative<std::vector<ChatMessage>>(prompt);
  try {
    return std::visit(Encoder{engine, options}, prompt);
  } catch (const Error& error) {
    // Clients must not see errors in the server's own files.
    const bool no_template = is_chat && error.kind() != ErrorKind::kUsage;
    const std::string why = no_template ? name + ": this model has no chat template that can be used"
                                        : engine_error(error.kind(), error.what()).what();
    throw ApiError(400, "invalid_value", why, name);
  }
}

EncodedRequest encode(const Engine& engine, TextRequest text) {
  compile_format(engine, text);
  EncodedRequest encoded{.text = std::move(text), .prompts = {}, .echoes = {}};
  const Request& asked = encoded.text.request;
  const std::string name = name_of_prompt(encoded.text.path);
  check_ids(asked, engine.info());
  for (const Prompt& prompt : encoded.text.prompts) {
    Request request = asked;
    request.sampling.stream =
        static_cast<uint32_t>(encoded.prompts.size()) * static_cast<uint32_t>(request.n);
    request.prompt_ids = encode_prompt(engine, prompt, {asked.special, asked.add_special_tokens}, name);
    check_length(request.prompt_ids, name, engine.info());
    encoded.prompts.push_back(std::move(request));
    const Echo echo{engine, !asked.skip_special_tokens};
    encoded.echoes.push_back(encoded.text.echo ? std::visit(echo, prompt) : std::string());
  }
  encoded.text.prompts.clear();
  return encoded;
}

}  // namespace serval::server
