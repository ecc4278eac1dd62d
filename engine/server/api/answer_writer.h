// Writes the answers of a request, whole or as a stream, in the format of the request's path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/server/api/answer_format.h"
#include "engine/server/api/api_error.h"
#include "engine/server/api/text_request.h"

namespace serval::server {

// Serves one request. Returns server-sent events ready to send; send them in the order of the calls. Not
// thread-safe.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // The whole answer. `choices` is in the order of their indices.
  virtual std::string complete(const std::vector<Piece>& choices, const Usage& usage) = 0;
  // A stream calls begin() before the first piece of each choice, piece() for each piece, and end() once.
  virtual std::string begin(size_t choice) = 0;
  virtual std::string piece(size_t choice, const Piece& piece) = 0;
  virtual std::string end(const Usage& usage) = 0;
  // The last event of a stream that has failed, instead of end().
  virtual std::string error(const ApiError& error);
};

std::unique_ptr<AnswerWriter> make_answer_writer(const TextRequest& request, const AnswerIdentity& identity);

}  // namespace serval::server
