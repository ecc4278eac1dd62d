// Accepts connections and calls a handler for each complete request within the limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/server/http/exchange.h"
#include "engine/server/http/limits.h"
#include "engine/server/http/loop.h"
#include "engine/server/http/tls_files.h"

namespace serval::server {

// Makes the answer to a request that does not reach the handler. `why` is one line.
using HttpRefusal = std::function<HttpResponse(int status, const std::string& why)>;

// HTTP/1.1 and 1.0 with keep-alive. Construct and destroy while the loop's thread does not run. A bad request
// is answered with 400 (not HTTP), 408 (too slow), 413 (body too long), 415 (compressed body), 431 (headers
// too long), 501 (a transfer encoding other than chunked) or 503 (too many connections), and its connection
// is closed. A few spare connections are accepted beyond the limit; their requests have `beyond_limit` set.
// Every answer has the header X-Request-Id: the client's, the handler's, or a new one. With TLS, a client
// that sends plain HTTP gets 400 without TLS.
class HttpServer {
 public:
  // `cors`: the origin whose pages may send requests (http/cors.h); empty: only the server's own. Throws
  // Error(kRuntime) if the files of TLS cannot be used.
  HttpServer(Loop& loop, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal,
             const std::string& cors = {}, const TlsFiles& tls = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // Returns the port, which the system picks if `port` is 0. Throws Error(kRuntime) if `host` is not an
  // address of this machine or the address is in use.
  uint16_t listen(const std::string& host, uint16_t port);
  // For the loop's thread:
  void close_after_answers();  // each connection closes after its current answer, which says so
  bool has_unsent() const;     // whether bytes of answers are not yet in the clients' sockets
  size_t connections() const;  // open ones

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace serval::server
