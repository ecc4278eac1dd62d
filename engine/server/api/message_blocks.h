// Content blocks of /v1/messages as messages of a conversation.
#pragma once

#include <string>
#include <vector>

#include "engine/include/serval/chat.h"
#include "engine/server/api/body_fields.h"

namespace serval::server {

struct MessageTurns {
  std::vector<ChatMessage> messages;
  bool continues_answer = false;  // the last message is the beginning of the answer
};

// Reads `system` and `messages`. A block tool_result becomes a message of the role "tool", tool_use a call of
// its message, and thinking the message's reasoning. Messages of one role that follow each other become one.
// `body` is the text of the object that `fields` reads. Throws ApiError (400).
MessageTurns parse_turns(const BodyFields& fields, const std::string& body);

// Checks `cache_control`, which has no effect: every prompt is cached.
void check_cache_control(const BodyFields& fields);

}  // namespace serval::server
