// The text side of a model: its tokenizer, its chat template and the tokens that end an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/answer/formats.h"
#include "engine/include/serval/chat.h"
#include "engine/runtime/model_source.h"
#include "engine/text/text_codec.h"

namespace serval {

// Token ids of a conversation. Throws Error if the model has no chat template, and as
// ChatTemplate::encode(). Thread-safe.
using ChatEncoder = std::function<std::vector<int32_t>(std::span<const ChatMessage>, const ChatOptions&)>;

struct TextModel {
  std::unique_ptr<TextCodec> codec;
  ChatEncoder encode_chat;
  std::string chat_template;         // its name; empty if there is none
  std::string chat_template_text;    // its Jinja; empty likewise
  std::string bos_token, eos_token;  // their texts; empty if there is none
  TemplateFormats formats;           // what it shows
  std::vector<int32_t> stop_tokens;  // from config, tokenizer and chat template; at most kMaxStopTokens
};

// `chat_template` is a name or a file; empty: the checkpoint's own. If the checkpoint has none or it cannot
// be read, encode_chat throws that error. Throws Error(kRuntime) if the tokenizer cannot be used. A model
// with random weights needs no tokenizer: its tokens are bytes, as a line of the log says.
TextModel load_text_model(const ModelSource& source, const std::string& chat_template, bool random_weights);

}  // namespace serval
