// The bytes of one connection: a TCP socket, plain or with TLS.
#pragma once

#include <memory>
#include <utility>

#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/stream.hpp"

namespace serval::server {

// An AsyncReadStream and AsyncWriteStream of Asio. Handlers must keep it alive. Plain connections cost one
// test more than their socket.
class ClientStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;
  using ErrorCode = boost::system::error_code;

  // `tls`: null for a plain connection; otherwise it must outlive the stream, and a handshake comes first.
  ClientStream(Socket socket, boost::asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls != nullptr) tls_ = std::make_unique<boost::asio::ssl::stream<Socket&>>(socket_, *tls);
  }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& socket() { return socket_; }
  const Socket& socket() const { return socket_; }
  bool has_tls() const { return tls_ != nullptr && !is_plain_; }
  // After a failed handshake: sends and receives without TLS from now on.
  void continue_plain() { is_plain_ = true; }

  template <typename Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (has_tls()) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (has_tls()) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // Tells the client that nothing more comes. With TLS, calls handler(error) when the client has confirmed
  // it; a plain client confirms nothing, and the handler is not called. Call once.
  template <typename Handler>
  void async_end(Handler&& handler) {
    if (has_tls()) return tls_->async_shutdown(std::forward<Handler>(handler));
    ErrorCode ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }

 private:
  Socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<Socket&>> tls_;
  bool is_plain_ = false;
};

}  // namespace serval::server
