// What is known of a request when it has ended: for logs and metrics.
#pragma once

#include <cstdint>
#include <string>

namespace serval::server {

struct RequestRecord {
  std::string id;          // the answer's
  std::string request_id;  // X-Request-Id: the client's, or the answer's
  std::string key;         // its name
  std::string path;        // "/v1/completions"
  std::string user;
  int status = 200;    // what the client was told first
  std::string reason;  // "stop", "length", "timeout", "gone", "error", … of the last answer
  bool stream = false;
  size_t body_bytes = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  // Seconds since the request was read; 0 where it did not come to that.
  double queue_s = 0;        // until its first answer joined those that run
  double first_token_s = 0;  // until its first token
  double total_s = 0;
};

}  // namespace serval::server
