#include "engine/server/service/encode.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "vm/base/error.h"

namespace serval::server {
namespace {

// A list of calls as the model writes it, given the JSON of each.
std::string written_calls(const std::vector<std::string>& calls, ToolFormat format) {
  switch (format) {
    case ToolFormat::kLlama3Json:
      return fmt::format("{}", fmt::join(calls, "; "));
    case ToolFormat::kMistral:
      return fmt::format("{} [{}]", kToolCallsBegin, fmt::join(calls, ", "));
    case ToolFormat::kSmolLm2:
      return fmt::format("{}[{}]{}", kToolCallBegin, fmt::join(calls, ", "), kToolCallEnd);
    case ToolFormat::kHermes:
    case ToolFormat::kNone:
      break;
  }
  const std::string between = fmt::format("\n{}\n{}\n", kToolCallEnd, kToolCallBegin);
  return fmt::format("{}\n{}\n{}", kToolCallBegin, fmt::join(calls, between), kToolCallEnd);
}

std::string written_call(const std::string& name, const std::string& arguments, ToolFormat format) {
  return fmt::format(R"({{"name": "{}", "{}": {}}})", name, arguments_key(format), arguments);
}

// For chat templates that do not write tools: the system's message describes them, and the text of the
// assistant's messages has their calls.
std::vector<ChatMessage> with_tools_as_text(std::vector<ChatMessage> messages, const std::string& tools,
                                            ToolFormat format) {
  const auto add = [](std::string& content, const std::string& more) {
    content += (content.empty() ? "" : "\n") + more;
  };
  if (messages.empty() || messages.front().role != "system") messages.insert(messages.begin(), {"system"});
  add(messages.front().content,
      fmt::format("Functions that you may call, as JSON schemas:\n{}\nA call is written as\n{}", tools,
                  written_calls({written_call("NAME", "{…}", format)}, format)));
  for (ChatMessage& message : messages) {
    std::vector<std::string> calls;
    for (const ToolCall& call : message.tool_calls)
      calls.push_back(written_call(call.name, call.arguments, format));
    if (!calls.empty()) add(message.content, written_calls(calls, format));
  }
  return messages;
}

struct Encoder {
  const Engine& engine;
  const PromptOptions& options;

  std::vector<int32_t> operator()(const std::string& text) const {
    return engine.tokenize(text, options.text);
  }
  std::vector<int32_t> operator()(const std::vector<int32_t>& ids) const { return ids; }
  std::vector<int32_t> operator()(const std::vector<ChatMessage>& messages) const {
    const std::string& tools = options.chat.tools;
    const ToolFormat format = options.formats.tools;
    if (tools.empty() || format == ToolFormat::kNone || !options.formats.describe_tools)
      return engine.tokenize_chat(messages, options.chat);
    return engine.tokenize_chat(with_tools_as_text(messages, tools, format), options.chat);
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

// Tokens that a prompt may have: an answer needs room for one more.
int most_tokens(const ModelInfo& info) {
  return info.pooling.empty() ? info.context - 1 : info.context;
}

void check_length(const std::vector<int32_t>& ids, const std::string& name, const ModelInfo& info) {
  const int most = most_tokens(info);
  if (ids.size() > static_cast<size_t>(most)) {
    throw ApiError(400, "context_length_exceeded",
                   fmt::format("{}: {} tokens; limit: {} (context {})", name, ids.size(), most, info.context),
                   name);
  }
  for (const int32_t id : ids) check_id(id, name, info);
}

// Applies `truncate_prompt_tokens`. Returns whether it left tokens out.
bool truncate(std::vector<int32_t>& ids, const TextRequest& text, const ModelInfo& info) {
  constexpr const char* kName = "truncate_prompt_tokens";
  const int asked = text.truncate_prompt_tokens;
  if (asked == 0) return false;
  const int most = most_tokens(info);
  if (asked > most)
    refuse_parameter(kName, fmt::format("{}; limit: {} (context {})", asked, most, info.context));
  const int answer = std::clamp(text.request.max_tokens, info.context - most, info.context - 1);
  const auto kept = static_cast<size_t>(asked > 0 ? asked : info.context - answer);
  if (ids.size() <= kept) return false;
  ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kept));
  return true;
}

// An engine either generates or computes embeddings.
void check_runner(const ModelInfo& info, const TextRequest& text) {
  const bool wants_embeddings = text.path == TextPath::kEmbeddings;
  if (wants_embeddings == !info.pooling.empty()) {
    if (text.request.dimensions > info.hidden_size) {
      refuse_parameter("dimensions", fmt::format("{}; limit: 1 to {} (the model's hidden size)",
                                                 text.request.dimensions, info.hidden_size));
    }
    return;
  }
  if (text.counts_only) return;
  throw ApiError(400, "unsupported_model",
                 wants_embeddings
                     ? "this server generates texts; serval serve --embeddings computes embeddings"
                     : "this server computes embeddings, at /v1/embeddings; serval serve "
                       "--no-embeddings generates texts",
                 "model");
}

const char* name_of_prompt(TextPath path) {
  switch (path) {
    case TextPath::kChat:
    case TextPath::kMessages:
      return "messages";
    case TextPath::kResponses:
    case TextPath::kEmbeddings:
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
    const std::string line = error.what(), tools = "tools: ";
    if (line.starts_with(tools)) refuse_parameter("tools", line.substr(tools.size()));
    refuse_parameter(text.format_name, line);
  }
}

// Sets what the engine and the chat template need for the tools.
void set_tools(TextRequest& text, const AnswerFormats& formats) {
  const RequestTools& tools = text.tools;
  if (tools.functions.empty()) return;
  if (formats.tools == ToolFormat::kNone && tools.choice != ToolChoice::kNone)
    refuse_parameter("tools",
                     "this model's chat template shows no format of calls; the server can be told one "
                     "with --tool-parser");
  Request& request = text.request;
  request.tools = {.format = formats.tools,
                   .choice = tools.choice,
                   .functions = tools.functions,
                   .parallel = tools.parallel && tools.chosen.empty()};
  if (!tools.chosen.empty())
    std::erase_if(request.tools.functions, [&](const ToolFunction& f) { return f.name != tools.chosen; });
  request.chat.tools = tools.definitions;
}

// How the answer to a conversation begins. A continued message may be inside of its reasoning.
Reasoning reasoning_of(const Engine& engine, const TextRequest& text, const std::vector<int32_t>& ids,
                       ReasoningFormat format) {
  const auto* messages = std::get_if<std::vector<ChatMessage>>(&text.prompts.front());
  if (messages == nullptr || format == ReasoningFormat::kNone) return Reasoning::kNone;
  if (text.request.chat.continue_final_message) {
    const std::string& last = messages->back().content;
    const size_t begin = last.rfind(kThinkBegin), end = last.rfind(kThinkEnd);
    const bool is_open = begin != std::string::npos && (end == std::string::npos || end < begin);
    return is_open ? Reasoning::kOpen : Reasoning::kNone;
  }
  constexpr size_t kEnd = 32;  // tokens: more than any marker with the line breaks after it
  const std::span<const int32_t> all(ids);
  return reasoning_after(format, engine.detokenize(all.last(std::min(kEnd, all.size())), /*special=*/true));
}

void set_reasoning(TextRequest& text, Reasoning reasoning, ReasoningFormat format) {
  Request& request = text.request;
  if (request.max_reasoning_tokens >= 0 && format == ReasoningFormat::kNone)
    refuse_parameter(text.path == TextPath::kMessages ? "thinking" : "max_reasoning_tokens",
                     "this model's chat template shows no reasoning; the server can be told it with "
                     "--reasoning-parser");
  request.reasoning = reasoning;
  if (reasoning == Reasoning::kNone) request.max_reasoning_tokens = -1;  // nothing to limit
}

}  // namespace

AnswerFormats answer_formats(const ModelInfo& info, const std::string& tool_parser,
                             const std::string& reasoning_parser) {
  AnswerFormats formats;
  formats.tools =
      tool_format_named(tool_parser.empty() ? info.tool_parser : tool_parser).value_or(ToolFormat::kNone);
  formats.reasoning =
      reasoning_format_named(reasoning_parser.empty() ? info.reasoning_parser : reasoning_parser)
          .value_or(ReasoningFormat::kNone);
  formats.describe_tools = !info.template_writes_tools;
  return formats;
}

std::vector<int32_t> encode_prompt(const Engine& engine, const Prompt& prompt, const PromptOptions& options,
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

EncodedRequest encode(const Engine& engine, TextRequest text, const AnswerFormats& formats) {
  check_runner(engine.info(), text);
  set_tools(text, formats);
  EncodedRequest encoded{.text = std::move(text), .prompts = {}, .echoes = {}, .shape = {}};
  Request& asked = encoded.text.request;
  const std::string name = name_of_prompt(encoded.text.path);
  check_ids(asked, engine.info());
  std::vector<std::vector<int32_t>> ids;
  for (const Prompt& prompt : encoded.text.prompts) {
    const PromptOptions options{{asked.special, asked.add_special_tokens}, asked.chat, formats};
    ids.push_back(encode_prompt(engine, prompt, options, name));
    const bool is_truncated = truncate(ids.back(), encoded.text, engine.info());
    if (!encoded.text.counts_only) check_length(ids.back(), name, engine.info());
    const Echo echo{engine, !asked.skip_special_tokens};
    encoded.echoes.push_back(!encoded.text.echo ? std::string()
                             : is_truncated     ? echo(ids.back())
                                                : std::visit(echo, prompt));
  }
  set_reasoning(encoded.text, reasoning_of(engine, encoded.text, ids.front(), formats.reasoning),
                formats.reasoning);
  compile_format(engine, encoded.text);
  encoded.shape = {asked.reasoning,
                   asked.tools.choice == ToolChoice::kNone ? ToolFormat::kNone : formats.tools};
  for (std::vector<int32_t>& prompt_ids : ids) {
    Request request = asked;
    request.sampling.stream =
        static_cast<uint32_t>(encoded.prompts.size()) * static_cast<uint32_t>(request.n);
    request.prompt_ids = std::move(prompt_ids);
    encoded.prompts.push_back(std::move(request));
  }
  if (encoded.text.return_token_ids || encoded.text.path == TextPath::kMessages) {
    for (const Request& request : encoded.prompts) encoded.text.prompt_ids.push_back(request.prompt_ids);
  }
  encoded.text.prompts.clear();
  return encoded;
}

}  // namespace serval::server
