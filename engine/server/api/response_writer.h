// The answer of /v1/responses: a response object, or the events that it comes about by.
#pragma once

#include <memory>

#include "engine/server/api/answer_writer.h"

namespace serval::server {

// A request of one answer, which is one message of one text.
std::unique_ptr<AnswerWriter> make_response_writer(const TextRequest& request,
                                                   const AnswerIdentity& identity);

}  // namespace serval::server
