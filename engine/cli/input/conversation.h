// The token ids of a conversation. Answers are kept as they were generated: encoding their text again can
// give other tokens, which would not match the KV cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "serval/engine.h"

namespace serval::cli {

class Conversation {
 public:
  // The engine must outlive it.
  explicit Conversation(const Engine& engine) : engine_(engine) {}

  // The ids of all messages, ready for an answer. Throws as Engine::tokenize_chat().
  std::vector<int32_t> prompt(std::span<const ChatMessage> messages) const;
  // Adds the answer to the last prompt. The next prompt's messages must begin with that prompt's messages and
  // this answer's text.
  void add(std::vector<int32_t> prompt, const Response& answer);
  void forget() { said_.clear(); }

 private:
  bool is_control(int32_t id) const;

  const Engine& engine_;
  std::vector<int32_t> said_;  // the last prompt and its answer, without the token that ended it
};

}  // namespace serval::cli
