// What a client may send, and how long it may take.
#pragma once

#include <chrono>
#include <cstddef>

namespace serval::server {

struct HttpLimits {
  size_t body_bytes = size_t{1} << 20;
  size_t header_bytes = size_t{16} << 10;  // all headers and the request line
  // Of requests that come while another is answered (pipelining); the rest stays in the client's socket.
  size_t pipelined_bytes = size_t{64} << 10;
  // Of an answer that the client does not read; a client further behind is given up.
  size_t backlog_bytes = size_t{8} << 20;
  size_t connections = 2048;
  size_t spare_connections = 16;             // beyond these, for questions of operators alone
  std::chrono::milliseconds idle{75'000};    // between two requests
  std::chrono::milliseconds header{10'000};  // from a request's first byte to the end of its headers
  std::chrono::milliseconds body{30'000};    // from there to the end of its body
  std::chrono::milliseconds write{60'000};   // without a byte that the client's side takes
  // From the end of what a client sends to the question whether it still reads.
  std::chrono::milliseconds half_closed{1'000};
  std::chrono::milliseconds linger{2'000};  // for the rest of a request that was refused
};

}  // namespace serval::server
