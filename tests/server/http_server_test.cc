#include "engine/server/http/http_server.h"

#include <atomic>
#include <future>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/server/http/cors.h"
#include "engine/server/http/target.h"
#include "tests/server/http_client.h"
#include "vm/base/error.h"

namespace serval::server {
namespace {

using serval::testing::HttpClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Answers with "METHOD TARGET BODY". Keeps the exchange of a target that begins with /keep for the test to
// answer.
class EchoServer {
 public:
  explicit EchoServer(const HttpLimits& limits = {}, const std::string& cors = {})
      : server_(
            loop_, limits, [this](const std::shared_ptr<Exchange>& exchange) { answer(exchange); },
            [](int status, const std::string& why) { return HttpResponse{.status = status, .body = why}; },
            cors),
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
  // Waits for an exchange to keep and returns it.
  Exchange& kept() {
    kept_arrived_.get_future().get();
    return *kept_;
  }
  bool disconnect_is_noticed() {
    return disconnected_.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }

 private:
  void answer(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.beyond_limit) return exchange->respond({.body = "beyond the limit"});
    if (!request.target.starts_with("/keep"))
      return exchange->respond({.body = request.method + " " + request.target + " " + request.body});
    kept_ = exchange;
    exchange->on_disconnect([this] { disconnected_.set_value(); });
    kept_arrived_.set_value();
  }

  Loop loop_;
  HttpServer server_;
  uint16_t port_;
  std::shared_ptr<Exchange> kept_;
  std::promise<void> kept_arrived_, disconnected_;
};

std::string get(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}
std::string post(const std::string& body, const std::string& headers = "") {
  return "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers +
         "\r\n" + body;
}

HttpLimits short_timeouts() {
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

// The client would read a body as the next answer.
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

TEST(HttpServer, AClientMayExpectAContinueBeforeItsBody) {
  EchoServer server;
  HttpClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  client.read_until("POST /p abc");
}

TEST(HttpServer, AStreamIsSentPieceByPiece) {
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

TEST(HttpServer, ADisconnectIsNoticedWhileTheAnswerIsMade) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/keep"));
  server.kept();
  client.close();
  EXPECT_TRUE(server.disconnect_is_noticed());
}

// `curl -T -` and netcat close their sending side before they read the answer.
TEST(HttpServer, AClientThatHasClosedItsSendingSideGetsItsAnswer) {
  EchoServer server;
  HttpClient quick(server.port()), slow(server.port()), pipelined(server.port());
  quick.send(post("body"));
  quick.close_sending();
  EXPECT_THAT(quick.read_to_end(), ::testing::EndsWith("POST /p body"));
  pipelined.send(get("/1") + get("/2"));
  pipelined.close_sending();
  EXPECT_THAT(pipelined.read_to_end(), ::testing::EndsWith("GET /2 "));
  slow.send(get("/keep"));
  slow.close_sending();
  Exchange& exchange = server.kept();
  // The server checks that the client still reads by sending an answer that clients skip.
  EXPECT_EQ(slow.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  server.on_loop([&] { exchange.respond({.body = "at last"}); });
  EXPECT_THAT(slow.read_to_end(), ::testing::EndsWith("at last"));
}

TEST(HttpServer, AClientThatDoesNotReadIsDisconnected) {
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
  EXPECT_TRUE(server.disconnect_is_noticed());
}

TEST(HttpServer, TooLongRequestsAreRefused) {
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

TEST(HttpServer, InvalidHttpIsRefused) {
  EchoServer server;
  for (const char* bytes :
       {"nonsense\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "GET /\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    HttpClient client(server.port());
    client.send(bytes);
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 4")) << bytes;
  }
  HttpClient gzip(server.port());
  gzip.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n");
  EXPECT_THAT(gzip.read_to_end(), StartsWith("HTTP/1.1 501 "));
}

TEST(HttpServer, AnIncompleteRequestTimesOut) {
  EchoServer server(short_timeouts());
  HttpClient head(server.port());
  head.send("GET / HTTP/1.1\r\nHos");
  EXPECT_THAT(head.read_to_end(), StartsWith("HTTP/1.1 408 "));
  HttpClient body(server.port());
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_THAT(body.read_to_end(), StartsWith("HTTP/1.1 408 "));
  HttpClient silent(server.port());
  EXPECT_EQ(silent.read_to_end(), "") << "a connection without a request ends without an answer";
}

TEST(HttpServer, TooManyConnectionsAreRejected) {
  EchoServer server({.connections = 1, .spare_connections = 0});
  HttpClient first(server.port());
  first.send(get("/"));
  first.read_until("GET / ");
  HttpClient second(server.port());
  EXPECT_THAT(second.read_to_end(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("X-Request-Id: req-")));
  first.send(get("/again"));
  first.read_until("GET /again");
}

// Health checks must work even if idle connections use up the limit.
TEST(HttpServer, SpareConnectionsServeOneRequestBeyondTheLimit) {
  EchoServer server({.connections = 1, .spare_connections = 2});
  HttpClient first(server.port()), idle(server.port()), other(server.port());
  first.send(get("/"));
  first.read_until("GET / ");
  for (int i = 0; i < 3; ++i) {
    HttpClient question(server.port());
    question.send(get("/health"));
    EXPECT_THAT(question.read_to_end(), AllOf(HasSubstr("Connection: close"), HasSubstr("beyond the limit")));
  }
  EXPECT_EQ(idle.read_to_end(), "") << "the oldest that is idle makes room";
}

TEST(HttpServer, EveryAnswerHasARequestId) {
  EchoServer server;
  HttpClient client(server.port());
  client.send(get("/a", "X-Request-Id: mine-1\r\n"));
  EXPECT_THAT(client.read_until("GET /a "), HasSubstr("X-Request-Id: mine-1\r\n"));
  client.send(get("/b"));
  EXPECT_THAT(client.read_until("GET /b "), HasSubstr("X-Request-Id: req-")) << "not that of the one before";
  client.send("GET / HTTP/1.1\r\nX-Request-Id: mine-2\r\n\r\n");  // without Host
  EXPECT_THAT(client.read_to_end(),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("X-Request-Id: mine-2\r\n")));
  for (const std::string& id : {std::string("a b"), std::string("é"), std::string(129, 'x')}) {
    HttpClient wrong(server.port());
    wrong.send(get("/", "X-Request-Id: " + id + "\r\n"));
    EXPECT_THAT(wrong.read_to_end(), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("X-Request-Id: expected")));
  }
}

TEST(HttpServer, ARequestHasOneHost) {
  EchoServer server;
  for (const char* head : {"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
                           "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: x\r\nAuthorization: y\r\n\r\n"}) {
    HttpClient client(server.port());
    client.send(head);
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 400 ")) << head;
  }
  HttpClient old(server.port());
  old.send("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.read_to_end(), ::testing::EndsWith("GET /old "));
}

TEST(HttpServer, ACompressedBodyIsRefused) {
  EchoServer server;
  HttpClient gzip(server.port()), plain(server.port());
  gzip.send(post("\x1f\x8b", "Content-Encoding: gzip\r\n"));
  EXPECT_THAT(gzip.read_to_end(),
              AllOf(StartsWith("HTTP/1.1 415 "), HasSubstr("Accept-Encoding: identity\r\n")));
  plain.send(post("body", "Content-Encoding: identity\r\n"));
  plain.read_until("POST /p body");
}

TEST(HttpServer, PagesOfAnAllowedOriginMaySendRequests) {
  const std::string question =
      "OPTIONS /p HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization, "
      "x-stainless-os\r\n\r\n";
  const std::string origin = "Origin: https://a.example\r\n";
  EchoServer open({}, "https://a.example"), all({}, "*"), closed;
  HttpClient client(open.port()), any(all.port()), refused(closed.port());
  client.send(question);
  EXPECT_THAT(
      client.read_until("\r\n\r\n"),
      AllOf(StartsWith("HTTP/1.1 204 "), HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"),
            HasSubstr("Access-Control-Allow-Headers: authorization, x-stainless-os\r\n"),
            HasSubstr("Vary: Origin\r\n"), ::testing::Not(HasSubstr("Content-Length"))));
  client.send(get("/a", origin));
  EXPECT_THAT(client.read_until("GET /a "), HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"));
  client.send(get("/b", "Origin: https://b.example\r\n"));
  EXPECT_THAT(client.read_until("GET /b "), ::testing::Not(HasSubstr("Access-Control-Allow-Origin")));
  any.send(question);
  EXPECT_THAT(any.read_until("\r\n\r\n"), HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  refused.send(question);
  EXPECT_THAT(refused.read_until("OPTIONS /p "), ::testing::Not(HasSubstr("Access-Control")));
}

TEST(Cors, AnOriginIsASchemeAndAHost) {
  for (const char* origin : {"*", "https://a.example", "http://localhost:3000"})
    EXPECT_TRUE(is_cors_origin(origin));
  for (const char* other :
       {"", "a.example", "https://", "https://a.example/", "https://a b", "null", "ftp://a"})
    EXPECT_FALSE(is_cors_origin(other)) << other;
}

TEST(Target, IsAPathOrAUrl) {
  const auto path = [](const char* target) { return read_target(target).value_or(Target{"none", ""}).path; };
  EXPECT_EQ(path("/v1/models/org%2Fname?limit=1"), "/v1/models/org/name");
  EXPECT_EQ(read_target("/a?b=%20&c").value().query, "b=%20&c");
  EXPECT_EQ(path("http://host:8080/health"), "/health");
  EXPECT_EQ(path("HTTPS://host/a%20b?c"), "/a b");
  EXPECT_EQ(path("http://host"), "/");
  EXPECT_EQ(path("http://host?a"), "/");
  EXPECT_EQ(path("*"), "*");
  EXPECT_EQ(path("/%C3%A9"), "/é");
  for (const char* wrong : {"", "health", "/%", "/%4", "/%zz", "/%00", "host:80", "ftp://host/", "/%+1"})
    EXPECT_FALSE(read_target(wrong).has_value()) << wrong;
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
