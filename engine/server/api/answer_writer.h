// How the answers of a request go to its client, whole or as a stream, in the form of the path that it came
// by.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/server/api/answer_format.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// Of one request. Events are as they go over the wire, in their order. Not thread-safe.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // The whole answer; the choices in the order of their indices.
  virtual std::string complete(const std::vector<Piece>& choices, const Usage& usage) = 0;
  // Of a stream: what comes before the first piece of a choice, a piece, and what comes last.
  virtual std::string begin(size_t choice) = 0;
  virtual std::string piece(size_t choice, const Piece& piece) = 0;
  virtual std::string end(const Usage& usage) = 0;
};

std::unique_ptr<AnswerWriter> make_answer_writer(const TextRequest& request, const AnswerIdentity& identity);

}  // namespace serval::server
