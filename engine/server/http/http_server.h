// Listens, and hands each request that is whole and within the limits to a handler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/server/http/exchange.h"
#include "engine/server/http/limits.h"
#include "engine/server/http/loop.h"

namespace serval::server {

// Makes the body and the headers of an answer to a request that never reaches the handler: `status` and one
// line that says why.
using HttpRefusal = std::function<HttpResponse(int status, const std::string& why)>;

// HTTP/1.1 and 1.0 with keep-alive. Construct and destroy while the loop's thread does not run. What a client
// sends wrongly is answered with 400 (not HTTP), 408 (too slow), 413 (too long a body), 415 (a compressed
// body), 431 (too long headers), 501 (a transfer encoding other than chunked) or 503 (too many connections),
// and its connection is closed. Beyond the limit of connections some more are taken, whose requests say so.
// Every answer has the header X-Request-Id: the client's, the handler's, or a new one.
class HttpServer {
 public:
  // `cors`: pages of which origin may ask (http/cors.h); empty: none but the server's own.
  HttpServer(Loop& loop, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal,
             const std::string& cors = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // Returns the port, which the system picks where `port` is 0. Throws Error(kRuntime) where the address is
  // not this machine's or is in use.
  uint16_t listen(const std::string& host, uint16_t port);
  // Answers say that their connection closes after them. The loop's thread.
  void close_after_answers();
  // Whether bytes of answers wait to be taken by the clients' sockets. The loop's thread.
  bool has_unsent() const;
  size_t connections() const;  // the loop's thread

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace serval::server
