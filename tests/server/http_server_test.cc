#include "engine/server/http/http_server.h"

#include <atomic>
#include <future>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/http_client.h"
#include "vm/base/error.h"

namespace serval::server {
namespace {

using serval::testing::HttpClient;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Answers "METHOD TARGET BODY"; what begins with /keep is kept instead, for the test to answer.
class EchoServer {
 public:
  explicit EchoServer(const HttpLimits& limits = {})
      : server_(
            loop_, limits, [this](const std::shared_ptr<Exchange>& exchange) { answer(exchange); },
            [](int status, const std::string& why) { return HttpResponse{.status = status, .body = why}; }),
        port_(server_.listen("127.0.0.1", 0)) {
    loop_.start();
  }
  ~EchoServer() {
    on_loop([this] { kept_.reset(); });
    loop_.stop();
  }

  uint16_t port() const { return port_; }
  void on_loop(const std::function<void()>& call) {
    std::promise<void> done;
    loop_.post([&] {
      call();
      done.set_value();
    });
    done.get_future().get();
  }
  // The exchange that was kept, once it is there.
  Exchange& kept() {
    kept_arrived_.get_future().get();
    return *kept_;
  }
  bool gone_is_noticed() {
    return gone_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }

 private:
  void answer(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (!request.target.starts_with("/keep"))
      return exchange->respond({.body = request.method + " " + request.target + " " + request.body});
    kept_ = exchange;
    exchange->on_gone([this] { gone_.set_value(); });
    kept_arrived_.set_value();
  }

  Loop loop_;
  HttpServer server_;
  uint16_t port_;
  std::shared_ptr<Exchange> kept_;
  std::promise<void> kept_arrived_, gone_;
};

std::string get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}
std::string post(const std::string& body, const std::string& headers = "") {
  return "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "\r\n" + body;
}

HttpLimits impatient() {
  constexpr std::chrono::milliseconds kShort{100};
  return {.idle = kShort, .header = kShort, .body = kShort, .linger = kShort};
}

TEST(HttpServer, AConnectionServesRequestsOneAfterAnother) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/a?b=1"));
  EXPECT_THAT(client.read_until("GET /a?b=1 "), HasSubstr("Connection: keep-alive"));
  client.send(post("body"));
  EXPECT_THAT(client.read_until("POST /p body"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInTheirOrder) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/1") + get("/2") + post("three") + get("/4", "Connection: close\r\n"));
  const std::string all = client.read_to_end();
  const size_t first = all.find("GET /1"), second = all.find("GET /2"), third = all.find("POST /p three");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_LT(third, all.find("GET /4"));
  EXPECT_NE(all.find("GET /4"), std::string::npos);
}

// What followed would be read as the next answer.
TEST(HttpServer, TheAnswerToHeadHasNoBody) {
  EchoServer server;
  HttpClient client(server.port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + get("/b"));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(client.read_until("GET /b "), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServer, ABodyMayComeInChunks) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(
      "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  client.read_until("POST /p abcde");
}

TEST(HttpServer, AClientMayAskBeforeItSendsItsBody) {
  EchoServer server;
  HttpClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  client.read_until("POST /p abc");
}

TEST(HttpServer, AStreamGoesOutPieceByPiece) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/keep"));
  Exchange& exchange = server.kept();
  server.on_loop([&] {
    exchange.begin_stream({.content_type = "text/event-stream"});
    exchange.write("one");
  });
  EXPECT_THAT(client.read_until("3\r\none\r\n"), HasSubstr("Transfer-Encoding: chunked"));
  server.on_loop([&] { exchange.write("three"); });
  EXPECT_EQ(client.read_until("three\r\n"), "5\r\nthree\r\n");
  server.on_loop([&] { exchange.end_stream(); });
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
  client.send(get("/next"));
  client.read_until("GET /next");
}

TEST(HttpServer, ForAnOldClientAStreamEndsWithItsConnection) {
  EchoServer server;
  HttpClient client(server.port());
  client.send("GET /keep HTTP/1.0\r\n\r\n");
  Exchange& exchange = server.kept();
  server.on_loop([&] {
    exchange.begin_stream({});
    exchange.write("all of it");
    exchange.end_stream();
  });
  const std::string answer = client.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\nall of it")) << answer;
}

TEST(HttpServer, AClientThatGoesIsNoticedWhileItsAnswerIsMade) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/keep"));
  server.kept();
  client.close();
  EXPECT_TRUE(server.gone_is_noticed());
}

TEST(HttpServer, AClientThatDoesNotReadIsGivenUp) {
  HttpLimits limits;
  limits.backlog_bytes = 1 << 20;
  EchoServer server(limits);
  HttpClient client(server.port());
  client.send(get("/keep"));
  Exchange& exchange = server.kept();
  server.on_loop([&] {
    exchange.begin_stream({});
    const std::string megabyte(1 << 20, 'x');
    for (int i = 0; i < 64; ++i) exchange.write(megabyte);
  });
  EXPECT_TRUE(server.gone_is_noticed());
}

TEST(HttpServer, WhatIsTooLongIsRefused) {
  EchoServer server({.body_bytes = 10, .header_bytes = 1000});
  HttpClient body(server.port()), chunks(server.port()), header(server.port()), fits(server.port());
  body.send(post("eleven bytes"));
  EXPECT_THAT(body.read_to_end(), StartsWith("HTTP/1.1 413 "));
  chunks.send("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n" +
              std::string(255, 'x'));
  EXPECT_THAT(chunks.read_to_end(), StartsWith("HTTP/1.1 413 "));
  header.send(get("/", "A: " + std::string(2000, 'x') + "\r\n"));
  EXPECT_THAT(header.read_to_end(), StartsWith("HTTP/1.1 431 "));
  fits.send(post("ten bytes."));
  fits.read_until("POST /p ten bytes.");
}

TEST(HttpServer, WhatIsNotHttpIsRefused) {
  EchoServer server;
  for (const char* bytes :
       {"nonsense\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "GET /\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    HttpClient client(server.port());
    client.send(bytes);
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 4")) << bytes;
  }
  HttpClient gzip(server.port());
  gzip.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n");
  EXPECT_THAT(gzip.read_to_end(), StartsWith("HTTP/1.1 501 "));
}

TEST(HttpServer, ARequestThatDoesNotComeToItsEndTimesOut) {
  EchoServer server(impatient());
  HttpClient head(server.port());
  head.send("GET / HTTP/1.1\r\nHos");
  EXPECT_THAT(head.read_to_end(), StartsWith("HTTP/1.1 408 "));
  HttpClient body(server.port());
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_THAT(body.read_to_end(), StartsWith("HTTP/1.1 408 "));
  HttpClient silent(server.port());
  EXPECT_EQ(silent.read_to_end(), "") << "a connection without a request ends without an answer";
}

TEST(HttpServer, TooManyConnectionsAreTurnedAway) {
  EchoServer server({.connections = 1});
  HttpClient first(server.port());
  first.send(get("/"));
  first.read_until("GET / ");
  HttpClient second(server.port());
  EXPECT_THAT(second.read_to_end(), StartsWith("HTTP/1.1 503 "));
  first.send(get("/again"));
  first.read_until("GET /again");
}

TEST(HttpServer, AnAddressThatIsTakenIsAnError) {
  EchoServer server;
  Loop loop;
  HttpServer other(
      loop, {}, [](const auto&) {}, [](int, const std::string&) { return HttpResponse{}; });
  EXPECT_THROW(other.listen("127.0.0.1", server.port()), Error);
  EXPECT_THROW(other.listen("nowhere.example", 0), Error);
}

}  // namespace
}  // namespace serval::server
