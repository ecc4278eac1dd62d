// One connection of a client. Reads one request at a time and answers before it reads the next.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "engine/server/http/client_stream.h"
#include "engine/server/http/cors.h"
#include "engine/server/http/exchange.h"
#include "engine/server/http/http_server.h"
#include "engine/server/http/limits.h"

namespace serval::server {

// Settings and handlers that all connections of a server share.
struct ConnectionContext {
  HttpLimits limits;
  HttpHandler handler;
  HttpRefusal refusal;
  Cors cors = Cors({});
  std::unique_ptr<boost::asio::ssl::context> tls = {};  // null: connections are plain
  bool closing = false;                                 // connections close after their current answer
};

class ConnectionExchange;

// Used on the loop's thread only. Pending reads and writes keep it alive; the exchange holds a weak pointer.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Socket = ClientStream::Socket;

  // `is_spare`: accepted beyond the limit of connections. Its request has `beyond_limit` set, and the
  // connection closes after one answer.
  Connection(Socket socket, const ConnectionContext& context, bool is_spare);
  ~Connection();

  void start();
  // Closes the connection, or refuses the request with 408, if a deadline has passed.
  void check_time(TimePoint now);
  void close();
  bool closed() const { return !stream_.socket().is_open(); }
  bool is_spare() const { return is_spare_; }
  bool idle() const { return state_ == State::kIdle || state_ == State::kHandshake; }
  bool has_unsent() const { return !sending_.empty() || !unsent_.empty(); }

 private:
  friend class ConnectionExchange;
  using ErrorCode = boost::beast::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State { kHandshake, kIdle, kHead, kBody, kAnswering, kLingering };

  void enter(State state, std::chrono::milliseconds patience);
  void shake_hands();
  void read_first_bytes();
  void read_head();
  void on_head(ErrorCode error);
  bool refuse_head();
  void on_body(ErrorCode error);
  HttpRequest take_request();
  void answer_continue();
  void call_handler();
  void watch();
  void on_watched(ErrorCode error, size_t bytes);
  void on_half_closed();
  void fail_reading(ErrorCode error);
  void refuse(int status, const std::string& why);
  void linger();

  void begin_answer(const HttpResponse& response, std::optional<size_t> length);
  void finish_answer();
  void send(std::string_view bytes);
  void send_more();
  void on_sent(ErrorCode error, size_t bytes);
  void after_sending();

  const ConnectionContext& context_;
  ClientStream stream_;
  boost::beast::flat_buffer received_;
  std::optional<Parser> parser_;
  State state_ = State::kIdle;
  std::optional<TimePoint> read_deadline_, write_deadline_;
  std::optional<TimePoint> probe_at_;  // when to check whether a client that sends no more still reads
  bool reading_ = false;               // an asynchronous read is pending

  std::weak_ptr<ConnectionExchange> exchange_;
  std::string sending_, unsent_;
  size_t sent_ = 0;  // bytes of sending_
  bool keep_alive_ = true, chunked_ = false, answered_ = false;
  bool begun_ = false;        // the answer's head was sent
  bool input_ended_ = false;  // the client has closed its sending side
  const bool is_spare_;
  std::string request_id_, origin_;  // headers of the current request
  size_t lingered_ = 0;
};

}  // namespace serval::server
