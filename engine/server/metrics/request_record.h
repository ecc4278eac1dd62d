// The data of an ended request, for logs and metrics.
#pragma once

#include <cstdint>
#include <string>

namespace serval::server {

struct RequestRecord {
  std::string id;          // the answer's id
  std::string request_id;  // X-Request-Id: the client's, or the answer's id
  std::string key;         // the API key's name
  std::string path;        // "/v1/completions"
  std::string user;
  int status = 200;    // HTTP status; 200 also if a stream failed after its head was sent
  std::string reason;  // finish reason of the last answer ("stop", "length"), an error's code, or "gone"
  bool stream = false;
  size_t body_bytes = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  // Seconds since the request was read; 0 if it ended before.
  double queue_s = 0;        // until its first answer began to run
  double first_token_s = 0;  // until its first token
  double total_s = 0;
};

}  // namespace serval::server
