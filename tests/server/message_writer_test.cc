#include "engine/server/api/message_writer.h"

#include <sstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace serval::server {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const AnswerIdentity kIdentity{.id = "msg_1", .model = "toy", .created = 0};
const Usage kUsage{.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 5, .reasoning_tokens = 2};

std::unique_ptr<AnswerWriter> writer() {
  TextRequest request;
  request.path = TextPath::kMessages;
  request.prompt_ids = {std::vector<int32_t>(10, 7)};
  return make_message_writer(request, kIdentity);
}

// The events, each checked against the name before it.
std::vector<json> events_of(const std::string& stream) {
  std::vector<json> events;
  std::istringstream lines(stream);
  for (std::string name, data, empty; std::getline(lines, name);) {
    std::getline(lines, data);
    std::getline(lines, empty);
    EXPECT_EQ(empty, "");
    events.push_back(json::parse(data.substr(data.find(' ') + 1)));
    EXPECT_EQ(name, "event: " + events.back().at("type").get<std::string>());
  }
  return events;
}

std::vector<std::string> types_of(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events) types.push_back(event.at("type"));
  return types;
}

CallPiece begin_call(size_t index, const std::string& id, const std::string& name) {
  return {.index = index, .id = id, .name = name};
}

TEST(MessageWriter, AWholeAnswerHasItsBlocksInOrder) {
  Piece piece{.text = "Let me see.",
              .reasoning = "Hm.",
              .calls = {{.id = "c1", .name = "f", .arguments = R"({"b": 1, "a": 2})", .ends = true}},
              .finish_reason = "tool_calls"};
  const std::string text = writer()->complete({piece}, kUsage);
  const json message = json::parse(text);
  EXPECT_EQ(message.at("id"), "msg_1");
  EXPECT_EQ(message.at("type"), "message");
  EXPECT_EQ(message.at("stop_reason"), "tool_use");
  EXPECT_TRUE(message.at("stop_sequence").is_null());
  EXPECT_EQ(message.at("content"), json::parse(R"([{"type": "thinking", "thinking": "Hm.", "signature": ""},
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": 2}}])"));
  EXPECT_NE(text.find(R"({"b":1,"a":2})"), std::string::npos) << "arguments keep their order";
  EXPECT_EQ(message.at("usage").at("input_tokens"), 6) << "tokens found in the cache are no input";
  EXPECT_EQ(message.at("usage").at("cache_read_input_tokens"), 4);
  EXPECT_EQ(message.at("usage").at("output_tokens"), 5);
  EXPECT_EQ(message.at("usage").at("output_tokens_details").at("thinking_tokens"), 2);
}

TEST(MessageWriter, SaysWhyTheAnswerEnded) {
  const auto reason = [](const Piece& piece) {
    const json message = json::parse(writer()->complete({piece}, kUsage));
    return std::pair(message.at("stop_reason").get<std::string>(), message.at("stop_sequence"));
  };
  EXPECT_EQ(reason({.text = "x", .finish_reason = "stop"}), std::pair(std::string("end_turn"), json()));
  EXPECT_EQ(reason({.text = "x", .finish_reason = "length"}), std::pair(std::string("max_tokens"), json()));
  EXPECT_EQ(reason({.text = "x", .finish_reason = "stop", .stop_reason = "END"}),
            std::pair(std::string("stop_sequence"), json("END")));
}

TEST(MessageWriter, ACallThatWasCutHasNoInput) {
  const Piece piece{.calls = {{.id = "c1", .name = "f", .arguments = R"({"a": )"}},
                    .finish_reason = "length"};
  const json message = json::parse(writer()->complete({piece}, kUsage));
  EXPECT_EQ(message.at("content").at(0).at("input"), json::object());
  EXPECT_EQ(message.at("stop_reason"), "max_tokens");
}

TEST(MessageWriter, AStreamOpensAndClosesEachBlock) {
  const auto to = writer();
  std::string stream = to->begin(0);
  for (const char* part : {"H", "m."}) stream += to->piece(0, {.reasoning = part});
  for (const char* part : {"Let me ", "see."}) stream += to->piece(0, {.text = part});
  stream += to->piece(0, {.calls = {begin_call(0, "c1", "f")}});
  for (const char* part : {"{\"a\"", ": 1}"}) stream += to->piece(0, {.calls = {{.arguments = part}}});
  stream += to->piece(0, {.calls = {{.ends = true}}});
  stream += to->piece(0, {.calls = {begin_call(1, "c2", "g")}});
  stream += to->piece(0, {.calls = {{.index = 1, .ends = true}}});
  stream += to->piece(0, {.finish_reason = "tool_calls"});
  stream += to->end(kUsage);
  const std::vector<json> events = events_of(stream);
  EXPECT_THAT(
      types_of(events),
      ElementsAre("message_start", "content_block_start", "ping", "content_block_delta",
                  "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
                  "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
                  "content_block_delta", "content_block_stop", "content_block_start", "content_block_stop",
                  "message_delta", "message_stop"));
  EXPECT_EQ(events[0].at("message").at("usage").at("input_tokens"), 10);
  EXPECT_EQ(events[1].at("content_block").at("type"), "thinking");
  EXPECT_EQ(events[3].at("delta"), json({{"type", "thinking_delta"}, {"thinking", "H"}}));
  EXPECT_EQ(events[7].at("delta"), json({{"type", "text_delta"}, {"text", "Let me "}}));
  EXPECT_EQ(events[10].at("content_block"),
            json({{"type", "tool_use"}, {"id", "c1"}, {"name", "f"}, {"input", json::object()}}));
  EXPECT_EQ(events[11].at("delta"), json({{"type", "input_json_delta"}, {"partial_json", "{\"a\""}}));
  for (const auto& [event, index] :
       {std::pair(1, 0), {5, 0}, {6, 1}, {9, 1}, {10, 2}, {13, 2}, {14, 3}, {15, 3}})
    EXPECT_EQ(events[static_cast<size_t>(event)].at("index"), index) << event;
  EXPECT_EQ(events[16].at("delta").at("stop_reason"), "tool_use");
  EXPECT_EQ(events[16].at("usage").at("input_tokens"), 6);
  EXPECT_EQ(events[16].at("usage").at("output_tokens"), 5);
}

TEST(MessageWriter, AStreamWithoutTextHasNoBlock) {
  const auto to = writer();
  const std::string stream = to->begin(0) + to->piece(0, {.finish_reason = "stop"}) + to->end(kUsage);
  EXPECT_THAT(types_of(events_of(stream)), ElementsAre("message_start", "message_delta", "message_stop"));
}

TEST(MessageWriter, AnErrorIsAnEventOfItsOwn) {
  const std::vector<json> events = events_of(writer()->error({503, "shutting_down", "the server ends"}));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at("error"), json({{"type", "overloaded_error"}, {"message", "the server ends"}}));
}

}  // namespace
}  // namespace serval::server
