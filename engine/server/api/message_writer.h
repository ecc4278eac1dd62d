// The answer of /v1/messages: a message, or the events of a stream.
#pragma once

#include <memory>

#include "engine/server/api/answer_writer.h"

namespace serval::server {

// Writes one answer. A call that max_tokens has cut has the input {} in a whole answer.
std::unique_ptr<AnswerWriter> make_message_writer(const TextRequest& request, const AnswerIdentity& identity);

}  // namespace serval::server
