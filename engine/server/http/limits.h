// Limits on the sizes and times of HTTP requests and connections.
#pragma once

#include <chrono>
#include <cstddef>

namespace serval::server {

struct HttpLimits {
  size_t body_bytes = size_t{1} << 20;
  size_t header_bytes = size_t{16} << 10;  // all headers and the request line
  // Bytes read ahead while a request is answered (pipelining); the rest stays in the client's socket.
  size_t pipelined_bytes = size_t{64} << 10;
  // Bytes of an answer that the client has not read; with more, its connection is closed.
  size_t backlog_bytes = size_t{8} << 20;
  size_t connections = 2048;
  size_t spare_connections = 16;                // beyond `connections`; they serve only paths such as /health
  std::chrono::milliseconds handshake{10'000};  // of TLS
  std::chrono::milliseconds idle{75'000};       // between two requests
  std::chrono::milliseconds header{10'000};     // from a request's first byte to the end of its headers
  std::chrono::milliseconds body{30'000};       // from the end of the headers to the end of the body
  std::chrono::milliseconds write{60'000};      // without progress in sending to the client
  // From when the client closes its sending side until the server checks that it still reads.
  std::chrono::milliseconds half_closed{1'000};
  std::chrono::milliseconds linger{2'000};  // after the last answer, input is read and dropped for so long
};

}  // namespace serval::server
