#include "engine/server/api/response_writer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace serval::server {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const AnswerIdentity kIdentity{"resp_12", "toy", 7};
const Usage kUsage{.prompt_tokens = 5, .cached_tokens = 2, .completion_tokens = 3};

TextRequest request() {
  TextRequest request{.path = TextPath::kResponses};
  request.response.instructions = "Be brief.";
  request.request.max_tokens = 3;
  return request;
}

// The data of all events. Checks that events are numbered and that each is named after its type.
std::vector<json> data_of(const std::string& events) {
  std::vector<json> all;
  for (size_t begin = 0; begin < events.size();) {
    const size_t end = events.find("\n\n", begin), data = events.find("\ndata: ", begin);
    const std::string name = events.substr(begin, data - begin);
    all.push_back(json::parse(events.substr(data + 7, end - data - 7)));
    EXPECT_EQ(name, "event: " + all.back().at("type").get<std::string>());
    begin = end + 2;
  }
  return all;
}

TEST(ResponseWriter, WritesAResponseWithOneMessage) {
  const auto writer = make_answer_writer(request(), kIdentity);
  const json answer = json::parse(writer->complete({{.text = "Hi", .finish_reason = "stop"}}, kUsage));
  EXPECT_EQ(answer.at("object"), "response");
  EXPECT_EQ(answer.at("status"), "completed");
  EXPECT_EQ(answer.at("instructions"), "Be brief.");
  EXPECT_EQ(answer.at("max_output_tokens"), 3);
  EXPECT_EQ(answer.at("output").at(0).at("content").at(0).at("text"), "Hi");
  EXPECT_EQ(answer.at("usage").at("total_tokens"), 8);
  EXPECT_EQ(answer.at("usage").at("input_tokens_details").at("cached_tokens"), 2);
}

TEST(ResponseWriter, ReportsALimitAsIncomplete) {
  const auto writer = make_answer_writer(request(), kIdentity);
  const json answer = json::parse(writer->complete({{.text = "Hi", .finish_reason = "length"}}, kUsage));
  EXPECT_EQ(answer.at("status"), "incomplete");
  EXPECT_EQ(answer.at("incomplete_details").at("reason"), "max_output_tokens");
}

TEST(ResponseWriter, NumbersItsEvents) {
  const auto writer = make_answer_writer(request(), kIdentity);
  std::string events = writer->begin(0);
  events += writer->piece(0, {.text = "H"});
  events += writer->piece(0, {.text = "i\n"});
  events += writer->piece(0, {.finish_reason = "stop"});
  events += writer->end(kUsage);
  std::vector<std::string> types;
  std::string text;
  const std::vector<json> all = data_of(events);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].at("sequence_number"), i);
    types.push_back(all[i].at("type").get<std::string>().substr(std::string("response.").size()));
    if (types.back() == "output_text.delta") text += all[i].at("delta").get<std::string>();
  }
  EXPECT_THAT(types, ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                                 "output_text.delta", "output_text.delta", "output_text.done",
                                 "content_part.done", "output_item.done", "completed"));
  EXPECT_EQ(text, "Hi\n");
  EXPECT_EQ(all.back().at("response").at("output").at(0).at("content").at(0).at("text"), "Hi\n");
  EXPECT_EQ(all.front().at("response").at("output"), json::array());
}

std::vector<std::string> types_of(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events)
    types.push_back(event.at("type").get<std::string>().substr(std::string("response.").size()));
  return types;
}

TEST(ResponseWriter, WritesReasoningTextAndCallsAsItems) {
  const auto writer = make_answer_writer(request(), kIdentity);
  std::string events = writer->begin(0);
  events += writer->piece(0, {.reasoning = "Hm"});
  events += writer->piece(0, {.text = "So"});
  events += writer->piece(0, {.calls = {{.index = 0, .id = "call_1", .name = "f"}}});
  events += writer->piece(0, {.calls = {{.index = 0, .arguments = "{\"a\":"}}});
  events += writer->piece(0, {.calls = {{.index = 0, .arguments = "1}"}}});
  events += writer->piece(0, {.calls = {{.index = 0, .ends = true}}});
  events += writer->piece(0, {.finish_reason = "tool_calls"});
  events += writer->end({.completion_tokens = 9, .reasoning_tokens = 4});
  const std::vector<json> all = data_of(events);
  EXPECT_THAT(types_of(all),
              ElementsAre("created", "in_progress", "output_item.added", "content_part.added",
                          "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                          "output_item.done", "output_item.added", "content_part.added", "output_text.delta",
                          "output_text.done", "content_part.done", "output_item.done", "output_item.added",
                          "function_call_arguments.delta", "function_call_arguments.delta",
                          "function_call_arguments.done", "output_item.done", "completed"));
  const json output = all.back().at("response").at("output");
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0].at("type"), "reasoning");
  EXPECT_EQ(output[0].at("content").at(0).at("text"), "Hm");
  EXPECT_EQ(output[1].at("content").at(0).at("text"), "So");
  EXPECT_EQ(output[2].at("type"), "function_call");
  EXPECT_EQ(output[2].at("call_id"), "call_1");
  EXPECT_EQ(output[2].at("arguments"), "{\"a\":1}");
  EXPECT_EQ(all[18].at("item"), output[2]);
  EXPECT_EQ(all[18].at("output_index"), 2);
  EXPECT_EQ(all[14].at("item").at("arguments"), "");
  EXPECT_EQ(all[15].at("item_id"), output[2].at("id"));
  EXPECT_EQ(all.back().at("response").at("usage").at("output_tokens_details").at("reasoning_tokens"), 4);
}

TEST(ResponseWriter, AWholeAnswerHasTheItemsOfItsStream) {
  const auto writer = make_answer_writer(request(), kIdentity);
  const Piece whole{.reasoning = "Hm",
                    .calls = {{.index = 0, .id = "call_1", .name = "f", .arguments = "{", .ends = false}},
                    .finish_reason = "length"};
  const json answer = json::parse(writer->complete({whole}, kUsage));
  ASSERT_EQ(answer.at("output").size(), 2u) << "without text there is no message";
  EXPECT_EQ(answer.at("output")[0].at("status"), "completed");
  EXPECT_EQ(answer.at("output")[1].at("status"), "incomplete") << "the limit has cut the call";
}

TEST(ResponseWriter, AnEmptyAnswerIsAnEmptyMessage) {
  const auto writer = make_answer_writer(request(), kIdentity);
  std::string events = writer->begin(0);
  events += writer->piece(0, {.finish_reason = "stop"});
  events += writer->end(kUsage);
  EXPECT_EQ(data_of(events).back().at("response").at("output").at(0).at("type"), "message");
}

}  // namespace
}  // namespace serval::server
