// Answers of /v1/embeddings, in OpenAI's format.
#pragma once

#include <memory>

#include "engine/server/api/answer_writer.h"

namespace serval::server {

// For requests that are not streamed: only complete() is called.
std::unique_ptr<AnswerWriter> make_embedding_writer(const TextRequest& request,
                                                    const AnswerIdentity& identity);

}  // namespace serval::server
