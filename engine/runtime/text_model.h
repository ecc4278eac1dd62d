// The text side of a model: its tokenizer, its chat template and the tokens that end an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/model_source.h"
#include "engine/text/text_codec.h"
#include "models/tokenizer/chat_template.h"

namespace serval {

// Token ids of a conversation, ready for the assistant's answer. Throws Error if the model has no chat
// template. Thread-safe.
using ChatEncoder = std::function<std::vector<int32_t>(std::span<const ChatTurn>)>;

struct TextModel {
  std::unique_ptr<TextCodec> codec;
  ChatEncoder encode_chat;
  std::string chat_template;         // its name; empty if there is none
  std::vector<int32_t> stop_tokens;  // from config, tokenizer and chat template; at most kMaxStopTokens
};

// `chat_template` is a name or a file; empty: the checkpoint's own. If the checkpoint has none or it cannot
// be read, encode_chat throws that error. Throws Error(kRuntime) if the tokenizer cannot be used. A model
// with random weights needs no tokenizer: its tokens are bytes, as a line of the log says.
TextModel load_text_model(const ModelSource& source, const std::string& chat_template, bool random_weights);

}  // namespace serval
