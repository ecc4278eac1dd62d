// What of a model deals in text: its tokenizer, chat template and the tokens that end an answer.
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

// A conversation's token ids, ready for the assistant's answer. Throws Error where the model has no chat
// template. Thread-safe.
using ChatEncoder = std::function<std::vector<int32_t>(std::span<const ChatTurn>)>;

struct TextModel {
  std::unique_ptr<TextCodec> codec;
  ChatEncoder encode_chat;
  std::string chat_template;         // its name; empty where there is none
  std::vector<int32_t> stop_tokens;  // what config, tokenizer and chat template name; at most kMaxStopTokens
};

// `chat_template`: a name or a file; empty: the checkpoint's own, and where it has none or that cannot be
// read, encode_chat is what says so. Throws Error(kRuntime) where the tokenizer cannot be used. A model with
// random weights does without one: its tokens are bytes, which one line of the log says.
TextModel load_text_model(const ModelSource& source, const std::string& chat_template, bool random_weights);

}  // namespace serval
