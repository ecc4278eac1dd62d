#include "engine/server/http/http_server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "boost/asio/buffer.hpp"
#include "boost/asio/ip/address.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "engine/server/http/connection.h"
#include "engine/server/http/head.h"
#include "engine/server/http/loop_impl.h"
#include "engine/server/http/request_id.h"
#include "engine/server/http/tls.h"
#include "vm/base/error.h"

namespace serval::server {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kTick{250};        // resolution of the clients' deadlines
constexpr std::chrono::milliseconds kAcceptPause{50};  // after accept() fails, for want of descriptors

[[noreturn]] void fail(const std::string& host, uint16_t port, const std::string& why) {
  throw Error(ErrorKind::kRuntime, fmt::format("cannot listen on {} port {}: {}", host, port, why));
}

}  // namespace

struct HttpServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(Loop& its_loop, ConnectionContext its_context)
      : loop(its_loop), io(its_loop.impl().io), acceptor(io), context(std::move(its_context)) {}

  void accept();
  void add(tcp::socket socket);
  bool close_idle_spare();
  void reject(tcp::socket socket) const;
  void check_time();
  void forget_closed() {
    std::erase_if(connections, [](const auto& connection) { return connection->closed(); });
  }

  Loop& loop;
  net::io_context& io;
  tcp::acceptor acceptor;
  ConnectionContext context;
  std::vector<std::shared_ptr<Connection>> connections;
};

void HttpServer::Impl::accept() {
  acceptor.async_accept([self = weak_from_this()](error_code error, tcp::socket socket) {
    const auto server = self.lock();
    if (!server || error == net::error::operation_aborted) return;
    if (error) {
      return server->loop.after(kAcceptPause, [self] {
        if (const auto later = self.lock()) later->accept();
      });
    }
    server->add(std::move(socket));
    server->accept();
  });
}

void HttpServer::Impl::add(tcp::socket socket) {
  const HttpLimits& limits = context.limits;
  if (connections.size() >= limits.connections) forget_closed();
  const auto spares =
      static_cast<size_t>(std::ranges::count_if(connections, [](const auto& c) { return c->is_spare(); }));
  const bool is_spare = connections.size() - spares >= limits.connections;
  if (is_spare && spares >= limits.spare_connections && !close_idle_spare()) return reject(std::move(socket));
  connections.push_back(std::make_shared<Connection>(std::move(socket), context, is_spare));
  connections.back()->start();
}

// Closes the oldest spare connection that has sent nothing. Returns whether there was one.
bool HttpServer::Impl::close_idle_spare() {
  const auto oldest = std::ranges::find_if(
      connections, [](const auto& connection) { return connection->is_spare() && connection->idle(); });
  if (oldest == connections.end()) return false;
  (*oldest)->close();
  forget_closed();
  return true;
}

// Answers 503 without waiting for a request or for the socket: too many connections are open already. A
// client that expects TLS could not read it: its connection just closes.
void HttpServer::Impl::reject(tcp::socket socket) const {
  if (context.tls != nullptr) return;
  const HttpResponse response = context.refusal(503, "too many connections are open; try again later");
  const std::string bytes =
      head_of(response,
              {.content_length = response.body.size(), .keep_alive = false, .request_id = new_request_id()}) +
      response.body;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(net::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::Impl::check_time() {
  const auto now = std::chrono::steady_clock::now();
  for (size_t i = 0; i < connections.size(); ++i) connections[i]->check_time(now);
  forget_closed();
}

HttpServer::HttpServer(Loop& loop, const HttpLimits& limits, HttpHandler handler, HttpRefusal refusal,
                       const std::string& cors, const TlsFiles& tls)
    : impl_(std::make_shared<Impl>(loop, ConnectionContext{.limits = limits,
                                                           .handler = std::move(handler),
                                                           .refusal = std::move(refusal),
                                                           .cors = Cors(cors),
                                                           .tls = make_tls_context(tls)})) {
  loop.every(kTick, [self = std::weak_ptr(impl_)] {
    if (const auto server = self.lock()) server->check_time();
  });
}

HttpServer::~HttpServer() {
  error_code ignored;
  impl_->acceptor.close(ignored);
  for (const auto& connection : impl_->connections) connection->close();
}

uint16_t HttpServer::listen(const std::string& host, uint16_t port) {
  error_code error;
  const auto address = net::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) fail(host, port, "expected an address of this machine, such as 127.0.0.1, 0.0.0.0 or ::");
  const tcp::endpoint endpoint(address, port);
  tcp::acceptor& acceptor = impl_->acceptor;
  const auto check = [&] {
    if (error) fail(host, port, error.message());
  };
  acceptor.open(endpoint.protocol(), error);
  check();
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  check();
  acceptor.bind(endpoint, error);
  check();
  acceptor.listen(net::socket_base::max_listen_connections, error);
  check();
  impl_->accept();
  return acceptor.local_endpoint().port();
}

void HttpServer::close_after_answers() {
  impl_->context.closing = true;
}

bool HttpServer::has_unsent() const {
  return std::ranges::any_of(impl_->connections,
                             [](const auto& connection) { return connection->has_unsent(); });
}

size_t HttpServer::connections() const {
  return static_cast<size_t>(std::ranges::count_if(
      impl_->connections, [](const auto& connection) { return !connection->closed(); }));
}

}  // namespace serval::server
