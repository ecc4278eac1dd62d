// The HTTP server: event loop, sockets and service.
//
//   Server server({.port = 8080});                // listens: /health says "loading"
//   Engine engine = Engine::load(options);
//   server.service().attach(engine);              // accepts requests
//   const Service::Outcome outcome = server.wait();
//   server.service().detach();
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/server/http/http_server.h"
#include "engine/server/http/limits.h"
#include "engine/server/http/loop.h"
#include "engine/server/http/tls_files.h"
#include "engine/server/service/service.h"

namespace serval::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;  // 0: the system picks one
  HttpLimits http = {};
  std::string cors = {};  // pages of this origin may send requests, too (http/cors.h); empty: none
  TlsFiles tls = {};
  ServiceOptions service = {};
};

// Thread-safe except for the destructor, which closes all connections.
class Server {
 public:
  // Throws Error(kRuntime) if it cannot listen on the address or use the files of TLS.
  explicit Server(ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  uint16_t port() const { return port_; }
  Service& service() { return service_; }
  // When `descriptor` becomes readable, for example after a signal: calls `before` on the loop's thread, then
  // drains the service.
  void drain_on(int descriptor, std::chrono::duration<double> patience, std::function<void()> before);
  // Returns when the service has an outcome and the last answers are sent, at most 2 s after the outcome.
  Service::Outcome wait();

 private:
  bool has_unsent();

  Loop loop_;
  Service service_;
  HttpServer http_;
  uint16_t port_;
};

}  // namespace serval::server
