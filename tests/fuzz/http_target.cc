// Fuzzes the bytes that a client sends to the server's socket, in two pieces. The first byte gives the size
// of the first piece.
#include <memory>
#include <string>

#include "engine/server/http/http_server.h"
#include "engine/server/http/request_id.h"
#include "engine/server/http/target.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/http_client.h"

namespace serval::fuzz {
namespace {

using namespace serval::server;

constexpr HttpLimits kLimits = {.body_bytes = 1000, .header_bytes = 2000, .pipelined_bytes = 4096};

// Runs until the process ends. Every other answer is a stream.
class EchoServer {
 public:
  EchoServer()
      : server_(
            loop_, kLimits, [this](const std::shared_ptr<Exchange>& exchange) { answer(exchange); },
            [](int status, const std::string& why) {
              require_one_line(why.c_str());
              return HttpResponse{.status = status, .body = why};
            },
            "http://a"),
        port_(server_.listen("127.0.0.1", 0)) {
    loop_.start();
  }
  uint16_t port() const { return port_; }

 private:
  void answer(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    require(request.body.size() <= kLimits.body_bytes, "a body is within its limit");
    require(request.target.size() <= kLimits.header_bytes, "a target is within its limit");
    require(request.request_id.empty() || is_request_id(request.request_id), "an id is printable");
    if (const auto target = read_target(request.target))
      require(target->path.size() <= request.target.size() + 1,
              "a decoded path is not longer than the target");
    streams_ = !streams_;
    if (!streams_) return exchange->respond({.body = request.body});
    exchange->begin_stream({});
    exchange->write(request.body);
    exchange->end_stream();
  }

  Loop loop_;
  bool streams_ = false;
  HttpServer server_;
  uint16_t port_;
};

}  // namespace
}  // namespace serval::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serval::fuzz;
  static EchoServer server;
  if (size == 0) return 0;
  const std::string bytes(text_of(data + 1, size - 1));
  const size_t part = bytes.size() * data[0] / 256;
  serval::testing::HttpClient client(server.port());
  client.send(bytes.substr(0, part));
  client.send(bytes.substr(part));
  client.close_sending();
  const std::string answer = client.read_to_end();
  client.abort();  // otherwise thousands of connections per second use up the ports
  require(answer.empty() || answer.starts_with("HTTP/1.1 "), "every answer is HTTP");
  return 0;
}
