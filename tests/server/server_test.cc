#include "engine/server/server.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/engine/toy_engine.h"
#include "tests/server/http_client.h"

namespace serval::server {
namespace {

using nlohmann::json;
using serval::testing::hashing_model;
using serval::testing::HttpClient;
using serval::testing::ToyEngine;

constexpr int32_t kVocabulary = 300;
constexpr int kTokens = 20;

std::string request_of(const std::string& prompt, bool stream) {
  const json body = {{"prompt", prompt}, {"max_tokens", kTokens}, {"temperature", 0}, {"stream", stream}};
  const std::string text = body.dump();
  return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(text.size()) +
         "\r\n\r\n" + text;
}

// The joined texts of a stream's events.
std::string text_of(const std::string& stream) {
  std::string text;
  constexpr std::string_view kEvent = "data: {";
  for (size_t at = 0; (at = stream.find(kEvent, at)) != std::string::npos; ++at) {
    const size_t begin = at + kEvent.size() - 1;
    const json event = json::parse(stream.substr(begin, stream.find("\n\n", begin) - begin));
    text += event.at("choices").at(0).at("text").get<std::string>();
  }
  return text;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { server_.service().attach(toy_.engine); }
  ~ServerTest() override { server_.service().detach(); }

  std::string alone(const std::string& prompt) {
    Request request{.prompt = prompt, .max_tokens = kTokens};
    request.sampling.temperature = 0;
    return toy_.engine.generate(request).text;
  }

  Server server_{{.port = 0, .service = {.max_queue = 10'000}}};
  ToyEngine toy_{hashing_model(kVocabulary), {.vocab_size = kVocabulary}};
};

TEST_F(ServerTest, ClientsOnManyThreadsGetTheirOwnAnswers) {
  constexpr int kThreads = 8, kRequests = 25;
  std::vector<std::thread> clients;
  std::vector<std::string> expected;
  for (int i = 0; i < kThreads; ++i) expected.push_back(alone("Client " + std::to_string(i)));
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    clients.emplace_back([&, i] {
      HttpClient client(server_.port());
      for (int r = 0; r < kRequests; ++r) {
        if (r % 5 == 4) {  // another client sends a request and disconnects
          HttpClient hasty(server_.port());
          hasty.send(request_of("Hasty", true));
          if (r % 2 == 0) hasty.read_until("data: ");
        }
        client.send(request_of("Client " + std::to_string(i), true));
        if (text_of(client.read_until("data: [DONE]\n\n\r\n0\r\n\r\n")) != expected[static_cast<size_t>(i)])
          ++wrong;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(toy_.releases_all_blocks());
}

TEST_F(ServerTest, DrainsWhenADescriptorCanBeRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::atomic<bool> told{false};
  server_.drain_on(ends[0], std::chrono::seconds(60), [&] { told = true; });
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(server_.wait(), Service::Outcome::kDrained);
  EXPECT_TRUE(told);
  HttpClient client(server_.port());
  client.send(request_of("late", false));
  EXPECT_NE(client.read_to_end().find("503"), std::string::npos) << "and the connection is closed after it";
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace serval::server
