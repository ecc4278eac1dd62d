// The token ids of a conversation. An answer stands in them as it was generated: text that is encoded again
// can give other tokens, and then the KV cache would not have the answer.
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
  // What the last prompt got; the next one's messages begin with that prompt's and this answer's text.
  void add(std::vector<int32_t> prompt, const Response& answer);
  void forget() { said_.clear(); }

 private:
  bool is_control(int32_t id) const;

  const Engine& engine_;
  std::vector<int32_t> said_;  // the last prompt and its answer, but for the token that ended it
};

}  // namespace serval::cli
