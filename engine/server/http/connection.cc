#include "engine/server/http/connection.h"

#include <utility>

#include "boost/asio/buffer.hpp"
#include "boost/beast/core/string.hpp"
#include "boost/beast/http/read.hpp"
#include "engine/server/http/head.h"
#include "engine/server/http/request_id.h"
#include "engine/server/http/tls.h"

namespace serval::server {

namespace net = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr size_t kReadBytes = 4096;
// Size of the receive buffer. The rest of a body waits in the socket.
constexpr size_t kReceiveBytes = size_t{256} << 10;
constexpr size_t kMostLingeredBytes = size_t{4} << 20;
constexpr const char* kApiKeyHeader = "X-Api-Key";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

template <typename View>  // Boost's string_view, whose type depends on the release
std::string text_of(const View& view) {
  return {view.data(), view.size()};
}

}  // namespace

// The exchange of one request. May outlive its connection: the service may still hold it.
class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(std::weak_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}
  ~ConnectionExchange() override {
    if (complete_) return;
    if (const auto connection = connection_.lock()) connection->close();
  }

  const HttpRequest& request() const override { return request_; }

  void respond(const HttpResponse& response) override {
    if (const auto connection = connection_.lock()) {
      connection->begin_answer(response, response.body.size());
      if (sends_body()) connection->send(response.body);
      complete(*connection);
    }
  }
  void begin_stream(const HttpResponse& head) override {
    if (const auto connection = connection_.lock()) connection->begin_answer(head, std::nullopt);
  }
  void write(std::string_view bytes) override {
    if (!sends_body()) return;
    if (const auto connection = connection_.lock())
      connection->send(connection->chunked_ ? chunk_of(bytes) : std::string(bytes));
  }
  void end_stream() override {
    if (const auto connection = connection_.lock()) {
      if (connection->chunked_ && sends_body()) connection->send(kLastChunk);
      complete(*connection);
    }
  }
  void on_disconnect(std::function<void()> call) override {
    if (connection_.expired() && !complete_) return call();
    on_disconnect_ = std::move(call);
  }

  // Called when the connection closes.
  void disconnect() {
    connection_.reset();
    if (!complete_ && on_disconnect_) std::exchange(on_disconnect_, {})();
  }

 private:
  // An answer to HEAD has no body: the client would read one as the next answer's head.
  bool sends_body() const { return request_.method != "HEAD"; }
  void complete(Connection& connection) {
    complete_ = true;
    on_disconnect_ = {};
    connection.finish_answer();
  }

  std::weak_ptr<Connection> connection_;
  const HttpRequest request_;
  std::function<void()> on_disconnect_;
  bool complete_ = false;
};

Connection::Connection(Socket socket, const ConnectionContext& context, bool is_spare)
    : context_(context),
      stream_(std::move(socket), context.tls.get()),
      received_(kReceiveBytes),
      is_spare_(is_spare) {}

Connection::~Connection() = default;

void Connection::start() {
  ErrorCode ignored;
  stream_.socket().set_option(net::ip::tcp::no_delay(true), ignored);
  if (stream_.has_tls()) return shake_hands();
  read_first_bytes();
}

void Connection::shake_hands() {
  enter(State::kHandshake, context_.limits.handshake);
  stream_.async_handshake([self = shared_from_this()](ErrorCode error) {
    if (!error) return self->read_first_bytes();
    if (self->closed() || !is_plain_http(error)) return self->close();
    self->stream_.continue_plain();
    self->refuse(400, "this port speaks HTTPS; begin the address with https://");
  });
}

void Connection::enter(State state, std::chrono::milliseconds patience) {
  state_ = state;
  read_deadline_ = std::chrono::steady_clock::now() + patience;
}

void Connection::check_time(TimePoint now) {
  if (write_deadline_ && *write_deadline_ <= now) return close();
  if (probe_at_ && *probe_at_ <= now) {
    probe_at_.reset();
    // The system of a client that has closed its socket answers this with a reset. A client that still reads
    // skips it (RFC 9110, 15.2).
    if (state_ == State::kAnswering && !begun_ && chunked_) send(kContinue);
  }
  if (!read_deadline_ || now < *read_deadline_) return;
  if (idle() || state_ == State::kLingering) return close();
  refuse(408, "the request took too long to arrive");
}

void Connection::close() {
  ErrorCode ignored;
  stream_.socket().shutdown(Socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
  sending_.clear();
  unsent_.clear();
  read_deadline_.reset();
  write_deadline_.reset();
  probe_at_.reset();
  if (const auto exchange = exchange_.lock()) exchange->disconnect();
  exchange_.reset();
}

void Connection::read_first_bytes() {
  request_id_.clear();
  origin_.clear();
  if (received_.size() > 0) return read_head();
  if (input_ended_) return close();
  enter(State::kIdle, context_.limits.idle);
  reading_ = true;
  stream_.async_read_some(received_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            self->reading_ = false;
                            if (error) return self->close();
                            self->received_.commit(bytes);
                            self->read_head();
                          });
}

void Connection::read_head() {
  enter(State::kHead, context_.limits.header);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_.limits.header_bytes));
  parser_->body_limit(context_.limits.body_bytes);
  reading_ = true;
  http::async_read_header(stream_, received_, *parser_, [self = shared_from_this()](ErrorCode error, size_t) {
    self->reading_ = false;
    self->on_head(error);
  });
}

void Connection::on_head(ErrorCode error) {
  if (state_ != State::kHead) return close();  // check_time() has refused the request
  if (error) return fail_reading(error);
  if (refuse_head()) return;
  const auto& head = parser_->get();
  keep_alive_ = parser_->keep_alive() && !is_spare_;
  if (boost::beast::iequals(head[http::field::expect], "100-continue")) answer_continue();
  if (closed()) return;
  enter(State::kBody, context_.limits.body);
  reading_ = true;
  http::async_read(stream_, received_, *parser_, [self = shared_from_this()](ErrorCode body_error, size_t) {
    self->reading_ = false;
    self->on_body(body_error);
  });
}

// Returns whether the head is bad and was refused.
bool Connection::refuse_head() {
  const auto& head = parser_->get();
  const auto refused = [this](int status, const std::string& why) {
    refuse(status, why);
    return true;
  };
  origin_ = text_of(head[http::field::origin]);
  const std::string id = text_of(head[kRequestIdHeader]);
  if (is_request_id(id)) request_id_ = id;
  if (head.version() < 10 || head.version() > 11) return refused(400, "expected HTTP/1.0 or HTTP/1.1");
  if (!id.empty() && request_id_.empty())
    return refused(400, "X-Request-Id: expected 1 to 128 printable ASCII characters without spaces");
  for (const char* name : {"Host", "Authorization", kApiKeyHeader, kRequestIdHeader}) {
    if (head.count(name) > 1) return refused(400, std::string(name) + ": given several times; expected once");
  }
  if (head.version() == 11 && head.find(http::field::host) == head.end())
    return refused(400, "Host: missing; HTTP/1.1 requires it");
  if (text_of(head[http::field::host]).find_first_of(" \t/?#@,") != std::string::npos)
    return refused(400, "Host: expected HOST or HOST:PORT");
  if (head.find(http::field::transfer_encoding) != head.end()) {
    if (!parser_->chunked()) return refused(501, "Transfer-Encoding: only chunked is supported");
    if (head.find(http::field::content_length) != head.end())
      return refused(400, "Content-Length and Transfer-Encoding: set either, not both");
  }
  const std::string coding = text_of(head[http::field::content_encoding]);
  const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
  if (has_body && !coding.empty() && !boost::beast::iequals(coding, "identity"))
    return refused(415, "Content-Encoding: compressed bodies are not supported; send the body uncompressed");
  return false;
}

void Connection::answer_continue() {
  if (!parser_->is_done()) send(kContinue);
}

void Connection::on_body(ErrorCode error) {
  if (state_ != State::kBody) return close();
  if (error) return fail_reading(error);
  call_handler();
}

void Connection::call_handler() {
  state_ = State::kAnswering;
  read_deadline_.reset();
  answered_ = begun_ = false;
  chunked_ = parser_->get().version() == 11;  // HTTP/1.0 has no chunked encoding
  const auto exchange = std::make_shared<ConnectionExchange>(weak_from_this(), take_request());
  parser_.reset();
  exchange_ = exchange;
  watch();
  if (context_.cors.is_preflight(exchange->request()))
    return exchange->respond(Cors::answer_preflight(exchange->request()));
  context_.handler(exchange);
}

HttpRequest Connection::take_request() {
  auto& message = parser_->get();
  return {.method = text_of(message.method_string()),
          .target = text_of(message.target()),
          .authorization = text_of(message[http::field::authorization]),
          .body = std::move(message.body()),
          .api_key = text_of(message[kApiKeyHeader]),
          .anthropic_version = text_of(message["Anthropic-Version"]),
          .request_id = request_id_,
          .origin = origin_,
          .has_requested_method = message.find(http::field::access_control_request_method) != message.end(),
          .requested_headers = text_of(message[http::field::access_control_request_headers]),
          .beyond_limit = is_spare_};
}

// Reads while the answer is made, to notice when the client disconnects.
void Connection::watch() {
  if (received_.size() >= context_.limits.pipelined_bytes) return;
  reading_ = true;
  stream_.async_read_some(received_.prepare(kReadBytes),
                          [self = shared_from_this()](ErrorCode error, size_t bytes) {
                            self->reading_ = false;
                            self->on_watched(error, bytes);
                          });
}

void Connection::on_watched(ErrorCode error, size_t bytes) {
  if (error == net::error::eof && state_ == State::kAnswering) return on_half_closed();
  const bool next = error == net::error::operation_aborted && !closed() && state_ == State::kIdle;
  if (error && !next) return close();
  if (state_ == State::kLingering) return linger();
  received_.commit(bytes);
  if (state_ == State::kAnswering) return watch();
  if (state_ == State::kIdle) read_first_bytes();
}

// The client has closed its sending side. It may still wait for its answer, or have closed its socket. Only
// sending shows which: a closed socket answers with a reset.
void Connection::on_half_closed() {
  input_ended_ = true;
  stream_.socket().async_wait(Socket::wait_error, [self = shared_from_this()](ErrorCode error) {
    if (!error && self->state_ == State::kAnswering) self->close();
  });
  probe_at_ = std::chrono::steady_clock::now() + context_.limits.half_closed;
}

void Connection::fail_reading(ErrorCode error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return refuse(431, "the headers are too long");
  if (error == http::error::body_limit) return refuse(413, "the body is too long");
  if (error == http::error::end_of_stream || error == http::error::partial_message) return close();
  if (error.category() == make_error_code(http::error::bad_method).category())
    return refuse(400, "this is not HTTP: " + error.message());
  close();
}

// Answers a request without calling the handler. The connection closes after the answer.
void Connection::refuse(int status, const std::string& why) {
  HttpResponse response = context_.refusal(status, why);
  if (status == 415) response.headers.emplace_back("Accept-Encoding", "identity");
  keep_alive_ = false;
  state_ = State::kAnswering;
  read_deadline_.reset();
  begin_answer(response, response.body.size());
  send(response.body);
  finish_answer();
}

void Connection::begin_answer(const HttpResponse& response, std::optional<size_t> length) {
  if (closed()) return;
  keep_alive_ = keep_alive_ && !context_.closing && (length || chunked_);
  chunked_ = chunked_ && !length;
  begun_ = true;
  send(head_of(response, {.content_length = length,
                          .chunked = chunked_,
                          .keep_alive = keep_alive_,
                          .request_id = request_id_.empty() ? new_request_id() : request_id_,
                          .more = context_.cors.headers_for(origin_)}));
}

void Connection::finish_answer() {
  answered_ = true;
  exchange_.reset();
  if (!has_unsent()) after_sending();
}

void Connection::send(std::string_view bytes) {
  if (closed() || bytes.empty()) return;
  if (unsent_.size() > context_.limits.backlog_bytes) return close();
  unsent_ += bytes;
  if (sending_.empty()) send_more();
}

void Connection::send_more() {
  if (sent_ == sending_.size()) {
    sent_ = 0;
    sending_.clear();
    std::swap(sending_, unsent_);
  }
  write_deadline_ = std::chrono::steady_clock::now() + context_.limits.write;
  stream_.async_write_some(
      net::buffer(sending_.data() + sent_, sending_.size() - sent_),
      [self = shared_from_this()](ErrorCode error, size_t bytes) { self->on_sent(error, bytes); });
}

void Connection::on_sent(ErrorCode error, size_t bytes) {
  if (error || closed()) return close();
  sent_ += bytes;
  if (sent_ < sending_.size() || !unsent_.empty()) return send_more();
  sending_.clear();
  sent_ = 0;
  write_deadline_.reset();
  after_sending();
}

// Called when nothing is left to send. After a complete answer, reads the next request or closes.
void Connection::after_sending() {
  if (!answered_ || closed()) return;
  if (!keep_alive_ || context_.closing) return linger();
  answered_ = false;
  enter(State::kIdle, context_.limits.idle);
  if (!reading_) return read_first_bytes();
  ErrorCode ignored;
  stream_.socket().cancel(ignored);  // on_watched() then reads the next request
}

// Reads and drops the client's remaining input before closing. If the socket were closed with unread input,
// the client's system would get a reset and could discard the answer.
void Connection::linger() {
  answered_ = false;
  if (state_ != State::kLingering) {
    enter(State::kLingering, context_.limits.linger);
    stream_.async_end([self = shared_from_this()](ErrorCode error) {
      if (!error) self->close();
    });
  }
  received_.consume(received_.size());
  if (reading_) return;
  reading_ = true;
  stream_.socket().async_read_some(received_.prepare(kReadBytes),
                                   [self = shared_from_this()](ErrorCode error, size_t bytes) {
                                     self->reading_ = false;
                                     self->lingered_ += bytes;
                                     if (error || self->lingered_ > kMostLingeredBytes) return self->close();
                                     self->linger();
                                   });
}

}  // namespace serval::server
