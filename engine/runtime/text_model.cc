#include "engine/runtime/text_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "spdlog/spdlog.h"

#include "models/tokenizer/chat_template.h"
#include "models/tokenizer/stream_decoder.h"
#include "models/tokenizer/tokenizer.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"
#include "vm/state/slots.h"

namespace serval {
namespace {

class DecoderStream final : public TextStream {
 public:
  DecoderStream(const Tokenizer& tokenizer, SpecialTokens special)
      : decoder_(tokenizer, /*skip_special_tokens=*/special == SpecialTokens::kNot) {}
  std::string push(int32_t token) override { return decoder_.push(token); }
  std::string flush() override { return decoder_.flush(); }

 private:
  StreamDecoder decoder_;
};

// A tokenizer may have tokens for which the model has no row, as long as no text needs them.
struct ModelTokenizer {
  Tokenizer tokenizer;
  std::filesystem::path file;
  int32_t model_vocab_size;

  std::vector<int32_t> checked(std::vector<int32_t> ids) const {
    for (const int32_t id : ids) {
      if (id < model_vocab_size) continue;
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: token {} of the text is {}; limit: 0 to {} (vocab_size in config.json)",
                              file.string(), in_quotes(tokenizer.token_bytes(id)), id, model_vocab_size - 1));
    }
    return ids;
  }
};

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(ModelTokenizer model) : model_(std::move(model)) {}
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override {
    const Tokenizer& tokenizer = model_.tokenizer;
    std::vector<int32_t> ids = options.special == SpecialTokens::kWritten
                                   ? tokenizer.encode(text, /*add_special_tokens=*/false)
                                   : tokenizer.encode_plain(text);
    return model_.checked(options.add_special_tokens ? tokenizer.with_special_tokens(std::move(ids)) : ids);
  }
  std::string decode(std::span<const int32_t> ids, SpecialTokens special) const override {
    return model_.tokenizer.decode(ids, special == SpecialTokens::kNot);
  }
  std::unique_ptr<TextStream> stream(SpecialTokens special) const override {
    return std::make_unique<DecoderStream>(model_.tokenizer, special);
  }
  std::optional<std::string> token_bytes(int32_t id, SpecialTokens special) const override {
    const Tokenizer& tokenizer = model_.tokenizer;
    if (!tokenizer.has(id) || (special == SpecialTokens::kNot && tokenizer.is_special(id)))
      return std::nullopt;
    return std::string(tokenizer.token_bytes(id));
  }

 private:
  ModelTokenizer model_;
};

ChatTurn turn_of(const ChatMessage& message) {
  ChatTurn turn{.role = message.role,
                .content = message.content,
                .name = message.name,
                .call_id = message.tool_call_id,
                .reasoning = message.reasoning_content};
  for (const ToolCall& call : message.tool_calls) turn.calls.push_back({call.id, call.name, call.arguments});
  return turn;
}

std::vector<int32_t> encode_with(const ChatTemplate& chat, const ModelTokenizer& model,
                                 std::span<const ChatMessage> messages, const ChatOptions& options) {
  std::vector<ChatTurn> turns;
  for (const ChatMessage& message : messages) turns.push_back(turn_of(message));
  return model.checked(chat.encode(model.tokenizer, turns,
                                   {.add_generation_prompt = options.add_generation_prompt,
                                    .continue_final_message = options.continue_final_message,
                                    .tools = options.tools,
                                    .variables = options.variables}));
}

// Sets encode_chat and chat_template. Returns the template if there is one.
std::optional<ChatTemplate> add_chat_template(TextModel& text, const ModelSource& source,
                                              const std::string& name, const ModelTokenizer& model) {
  try {
    const Tokenizer& tokenizer = model.tokenizer;
    const ChatTemplate chat =
        name.empty() ? source.files->chat_template(tokenizer) : ChatTemplate::of_name(name, tokenizer);
    text.chat_template = chat.name();
    text.chat_template_text = chat.source();
    text.formats = formats_of_template(chat.source());
    text.encode_chat = [=](std::span<const ChatMessage> messages, const ChatOptions& options) {
      return encode_with(chat, model, messages, options);
    };
    return chat;
  } catch (const Error& error) {
    // A template that was requested by name must work. The checkpoint's own matters only for conversations.
    if (!name.empty()) throw;
    text.encode_chat = [error](std::span<const ChatMessage>, const ChatOptions&) -> std::vector<int32_t> {
      throw error;
    };
    return std::nullopt;
  }
}

void add_stop_token(TextModel& text, const ModelShape& model, int32_t token) {
  const bool known =
      std::find(text.stop_tokens.begin(), text.stop_tokens.end(), token) != text.stop_tokens.end();
  if (!known && token < model.vocab_size) text.stop_tokens.push_back(token);
}

// The tokenizer's own, or the first of the configuration's.
std::optional<int32_t> end_of_text(const Tokenizer& tokenizer, const ModelShape& model) {
  if (const auto eos = tokenizer.eos_id()) return eos;
  return model.eos_ids.empty() ? std::nullopt : std::optional(model.eos_ids.front());
}

void check_stop_tokens(const TextModel& text, const ModelShape& model) {
  if (text.stop_tokens.size() <= kMaxStopTokens) return;
  throw Error(ErrorKind::kRuntime, fmt::format("{}: eos_token_id: {} tokens end an answer; limit: {}",
                                               model.name, text.stop_tokens.size(), kMaxStopTokens));
}

TextModel byte_text_model(const ModelShape& model, const std::string& chat_template) {
  if (!chat_template.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("chat_template: {} needs a tokenizer, and {} has none",
                                               chat_template, model.name));
  }
  spdlog::info("{} has no tokenizer: tokens 0 to 255 are bytes, others print as their number", model.name);
  TextModel text;
  text.codec = make_byte_codec(model.vocab_size);
  text.encode_chat = [name = model.name](std::span<const ChatMessage>,
                                         const ChatOptions&) -> std::vector<int32_t> {
    throw Error(ErrorKind::kUsage, fmt::format("messages: {} has no tokenizer, so no chat template", name));
  };
  for (const int32_t token : model.eos_ids) add_stop_token(text, model, token);
  return text;
}

}  // namespace

TextModel load_text_model(const ModelSource& source, const std::string& chat_template, bool random_weights) {
  const ModelShape& shape = *source.model;
  const bool has_tokenizer = source.files && source.files->has_tokenizer();
  TextModel text;
  if (!has_tokenizer && random_weights) {
    text = byte_text_model(shape, chat_template);
  } else {
    const Tokenizer tokenizer = source.files->tokenizer();
    const ModelTokenizer model{tokenizer, source.files->tokenizer_path(), shape.vocab_size};
    text.codec = std::make_unique<TokenizerCodec>(model);
    if (const auto bos = tokenizer.bos_id()) text.bos_token = tokenizer.token_bytes(*bos);
    const std::optional<ChatTemplate> chat = add_chat_template(text, source, chat_template, model);
    for (const int32_t token : shape.eos_ids) add_stop_token(text, shape, token);
    if (const auto eos = tokenizer.eos_id()) add_stop_token(text, shape, *eos);
    if (const auto eos = end_of_text(tokenizer, shape)) text.eos_token = tokenizer.token_bytes(*eos);
    if (chat) {
      for (const int32_t token : chat->stop_ids()) add_stop_token(text, shape, token);
    }
  }
  check_stop_tokens(text, shape);
  return text;
}

}  // namespace serval
