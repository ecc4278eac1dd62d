// The answer of /v1/responses: a response object, or the events of a stream.
#pragma once

#include <memory>

#include "engine/server/api/answer_writer.h"

namespace serval::server {

// Writes one answer: its reasoning, messages with one part of text each, and calls of functions, as items in
// the order in which they come.
std::unique_ptr<AnswerWriter> make_response_writer(const TextRequest& request,
                                                   const AnswerIdentity& identity);

}  // namespace serval::server
