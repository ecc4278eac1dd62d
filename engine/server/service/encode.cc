#include "engine/server/service/encode.h"

#include <algorithm>
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

// Applies `truncate_prompt_tokens`. Returns whether it left tokens out.
bool truncate(std::vector<int32_t>& ids, const TextRequest& text, const ModelInfo& info) {
  constexpr const char* kName = "truncate_prompt_tokens";
  const int asked = text.truncate_prompt_tokens;
  if (asked == 0) return false;
  if (asked >= info.context)
    refuse_parameter(kName, fmt::format("{}; limit: {} (context {})", asked, info.context - 1, info.context));
  const int answer = std::clamp(text.request.max_tokens, 1, info.context - 1);
  const auto kept = static_cast<size_t>(asked > 0 ? asked : info.context - answer);
  if (ids.size() <= kept) return false;
  ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kept));
  return true;
}

const char* name_of_prompt(TextPath path) {
  switch (path) {
    case TextPath::kChat:
    case TextPath::kMessages:
      return "messages";
    case TextPath::kResponses:
      return "input";
    case TextPath::kCompletions:
      break;
  }
  return "prompt";
}

const char* name_of_format(TextPath path) {
  if (path == TextPath::kMessages) return "output_config.format";
  return path == TextPath::kResponses ? "text.format" : "response_format";
}

// Compiles the format on the worker's thread. The engine then finds it in its cache.
void compile_format(const Engine& engine, const Request& request, TextPath path) {
  try {
    engine.compile_json(request);
  } catch (const Error& error) {
    refuse_parameter(name_of_format(path), error.what());
  }
}

// What the parsers of bodies know and the engine does not do yet.
void check_supported(const TextRequest& text) {
  if (!text.tools.functions.empty()) refuse_parameter("tools", "not supported yet");
  if (text.request.chat.continue_final_message)
    refuse_parameter("messages",
                     "the last is the assistant's; expected the user's: answers do not continue one yet");
  if (text.request.max_reasoning_tokens >= 0) refuse_parameter("thinking.budget_tokens", "not supported yet");
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
  check_supported(text);
  compile_format(engine, text.request, text.path);
  EncodedRequest encoded{.text = std::move(text), .prompts = {}, .echoes = {}};
  const Request& asked = encoded.text.request;
  const std::string name = name_of_prompt(encoded.text.path);
  check_ids(asked, engine.info());
  for (const Prompt& prompt : encoded.text.prompts) {
    Request request = asked;
    request.sampling.stream =
        static_cast<uint32_t>(encoded.prompts.size()) * static_cast<uint32_t>(request.n);
    request.prompt_ids = encode_prompt(engine, prompt, {asked.special, asked.add_special_tokens}, name);
    const bool is_truncated = truncate(request.prompt_ids, encoded.text, engine.info());
    if (!encoded.text.counts_only) check_length(request.prompt_ids, name, engine.info());
    const Echo echo{engine, !asked.skip_special_tokens};
    encoded.echoes.push_back(!encoded.text.echo ? std::string()
                             : is_truncated     ? echo(request.prompt_ids)
                                                : std::visit(echo, prompt));
    encoded.prompts.push_back(std::move(request));
  }
  if (encoded.text.return_token_ids || encoded.text.path == TextPath::kMessages) {
    for (const Request& request : encoded.prompts) encoded.text.prompt_ids.push_back(request.prompt_ids);
  }
  encoded.text.prompts.clear();
  return encoded;
}

}  // namespace serval::server
