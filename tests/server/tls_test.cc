#include "engine/server/http/tls.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/read.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"
#include "engine/server/http/http_server.h"
#include "tests/server/certificate.h"
#include "tests/server/http_client.h"
#include "vm/base/error.h"

namespace serval::server {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using serval::testing::Certificate;
using serval::testing::HttpClient;
using serval::testing::make_certificate;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A folder with the files of a test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "serval-tls-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  TlsFiles write(const Certificate& of) const {
    return {.certificate = write("cert.pem", of.certificate), .key = write("key.pem", of.key)};
  }
  std::filesystem::path path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string refusal_of(const TlsFiles& files) {
  try {
    make_tls_context(files);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "accepted";
}

TEST(TlsContext, IsMadeOfACertificateAndItsKey) {
  const Folder folder;
  const Certificate certificate = make_certificate();
  EXPECT_NE(make_tls_context(folder.write(certificate)), nullptr);
  const auto both = folder.write("both.pem", certificate.key + certificate.certificate);
  EXPECT_NE(make_tls_context({.certificate = both}), nullptr) << "the key may be in the certificate's file";
  EXPECT_EQ(make_tls_context({}), nullptr);
}

TEST(TlsContext, RefusesFilesThatItCannotUse) {
  const Folder folder;
  const TlsFiles good = folder.write(make_certificate());
  const auto other_key = folder.write("other.pem", make_certificate().key);
  const auto locked_key = folder.write("locked.pem", make_certificate("secret").key);
  const auto text = folder.write("text.pem", "not PEM\n");
  const auto absent = folder.path() / "absent.pem";
  EXPECT_THAT(refusal_of({.certificate = absent, .key = good.key}),
              AllOf(HasSubstr("absent.pem"), HasSubstr("cannot be read")));
  EXPECT_THAT(refusal_of({.certificate = good.certificate, .key = absent}), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal_of({.certificate = folder.path(), .key = good.key}), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal_of({.certificate = text, .key = good.key}), HasSubstr("text.pem: no certificate"));
  EXPECT_THAT(refusal_of({.certificate = good.certificate, .key = text}), HasSubstr("no private key"));
  EXPECT_THAT(refusal_of({.certificate = good.certificate}), HasSubstr("cert.pem: no private key"));
  EXPECT_THAT(refusal_of({.certificate = good.certificate, .key = other_key}),
              HasSubstr("other.pem: the key does not match the certificate"));
  EXPECT_THAT(refusal_of({.certificate = good.certificate, .key = locked_key}), HasSubstr("encrypted"));
  EXPECT_THAT(refusal_of({.key = good.key}), HasSubstr("without a certificate"));
}

// Answers with "METHOD TARGET BODY", and to /stream in three parts.
class TlsServer {
 public:
  explicit TlsServer(const HttpLimits& limits = {})
      : files_(folder_.write(make_certificate())),
        server_(
            loop_, limits, answer,
            [](int status, const std::string& why) { return HttpResponse{.status = status, .body = why}; },
            {}, files_),
        port_(server_.listen("127.0.0.1", 0)) {
    loop_.start();
  }
  ~TlsServer() { loop_.stop(); }

  uint16_t port() const { return port_; }
  void close_after_answers() {
    std::promise<void> done;
    loop_.post([&] {
      server_.close_after_answers();
      done.set_value();
    });
    done.get_future().get();
  }

 private:
  static void answer(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.target != "/stream")
      return exchange->respond({.body = request.method + " " + request.target + " " + request.body});
    exchange->begin_stream({});
    for (const char* part : {"one ", "two ", "three"}) exchange->write(part);
    exchange->end_stream();
  }

  const Folder folder_;
  const TlsFiles files_;
  Loop loop_;
  HttpServer server_;
  uint16_t port_;
};

class TlsClient {
 public:
  explicit TlsClient(uint16_t port, net::ssl::context::method method = net::ssl::context::tls_client)
      : context_(method), stream_(io_, context_) {
    stream_.next_layer().connect({net::ip::address_v4::loopback(), port});
  }

  error_code shake_hands() {
    error_code error;
    stream_.handshake(net::ssl::stream_base::client, error);
    return error;
  }
  void send(const std::string& text) { net::write(stream_, net::buffer(text)); }
  // Reads to the end; `end` says how it came.
  std::string read_to_end(error_code& end) {
    std::string text;
    net::read(stream_, net::dynamic_buffer(text), end);
    return text;
  }
  std::string read_until(const std::string& end) {
    std::string text;
    while (text.find(end) == std::string::npos) {
      char part[1024];
      error_code error;
      text.append(part, stream_.read_some(net::buffer(part), error));
      if (error) break;
    }
    return text;
  }
  net::ssl::stream<net::ip::tcp::socket>& stream() { return stream_; }

 private:
  net::io_context io_;
  net::ssl::context context_;
  net::ssl::stream<net::ip::tcp::socket> stream_;
};

std::string get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

TEST(Tls, AConnectionServesRequestsOneAfterAnother) {
  TlsServer server;
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  for (const char* target : {"/1", "/2", "/3"}) {
    client.send(get(target));
    EXPECT_THAT(client.read_until(std::string("GET ") + target), HasSubstr("Connection: keep-alive"));
  }
}

TEST(Tls, PipelinedRequestsAreAnsweredInTheirOrder) {
  TlsServer server;
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  client.send(get("/1") + get("/2") + get("/stream") + get("/4", "Connection: close\r\n"));
  error_code end;
  const std::string all = client.read_to_end(end);
  const size_t first = all.find("GET /1"), second = all.find("GET /2"), third = all.find("three");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, all.find("GET /4"));
  EXPECT_NE(all.find("GET /4"), std::string::npos);
}

// Without it, the client could not know whether its answer was cut.
TEST(Tls, TheServerSaysWhereItsLastAnswerEnds) {
  TlsServer server;
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  client.send(get("/stream", "Connection: close\r\n"));
  error_code end;
  EXPECT_THAT(client.read_to_end(end), HasSubstr("three"));
  EXPECT_EQ(end, net::error::eof) << end.message();
}

TEST(Tls, ALargeBodyArrivesWhole) {
  TlsServer server;
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  const std::string body(500'000, 'x');
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\nConnection: close\r\n\r\n" + body);
  error_code end;
  EXPECT_THAT(client.read_to_end(end), HasSubstr("POST /p " + body));
}

TEST(Tls, ABodyThatIsTooLongIsRefusedWhileItArrives) {
  TlsServer server({.body_bytes = 1000});
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  EXPECT_THAT(client.read_until("too long"), StartsWith("HTTP/1.1 413 "));
}

TEST(Tls, APlainRequestIsToldToUseHttps) {
  TlsServer server;
  HttpClient client(server.port());
  client.send(get("/1"));
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("https://")));
}

TEST(Tls, BytesThatAreNeitherTlsNorHttpCloseTheConnection) {
  TlsServer server;
  HttpClient client(server.port());
  client.send(std::string(100, '\x01'));
  EXPECT_THAT(client.read_to_end(), Not(HasSubstr("HTTP")));
}

TEST(Tls, AClientThatDoesNotShakeHandsIsClosed) {
  TlsServer server({.handshake = std::chrono::milliseconds(100)});
  HttpClient silent(server.port()), slow(server.port());
  slow.send("\x16\x03\x01");
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(slow.read_to_end(), "");
  TlsClient other(server.port());
  EXPECT_FALSE(other.shake_hands()) << "others are served";
}

TEST(Tls, AnIdleClientIsClosed) {
  TlsServer server({.idle = std::chrono::milliseconds(100)});
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  error_code end;
  EXPECT_EQ(client.read_to_end(end), "");
}

TEST(Tls, OldVersionsAreRefused) {
  TlsServer server;
  TlsClient client(server.port());
  SSL_set_max_proto_version(client.stream().native_handle(), TLS1_1_VERSION);
  SSL_set_security_level(client.stream().native_handle(), 0);
  EXPECT_TRUE(client.shake_hands());
}

TEST(Tls, AConnectionBeyondTheLimitIsServedAsASpareOne) {
  TlsServer server({.connections = 1, .spare_connections = 1});
  TlsClient first(server.port());
  ASSERT_FALSE(first.shake_hands());
  TlsClient second(server.port());
  ASSERT_FALSE(second.shake_hands());
  second.send(get("/1"));
  EXPECT_THAT(second.read_until("GET /1"), HasSubstr("Connection: close"));
  first.send(get("/2"));
  EXPECT_THAT(first.read_until("GET /2"), HasSubstr("Connection: keep-alive"));
}

TEST(Tls, ConnectionsCloseAfterTheirAnswersWhenTheServerEnds) {
  TlsServer server;
  TlsClient client(server.port());
  ASSERT_FALSE(client.shake_hands());
  server.close_after_answers();
  client.send(get("/1"));
  error_code end;
  EXPECT_THAT(client.read_to_end(end), HasSubstr("Connection: close"));
  EXPECT_EQ(end, net::error::eof) << end.message();
}

}  // namespace
}  // namespace serval::server
