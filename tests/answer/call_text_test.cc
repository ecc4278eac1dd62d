#include "engine/answer/call_text.h"

#include "gtest/gtest.h"

namespace serval {
namespace {

using Match = CallHead::Match;

TEST(CallHead, EndsWhereTheArgumentsBegin) {
  const std::string text = "{\"name\": \"f\", \"arguments\": {\"a\": 1}}";
  const CallHead head = read_call_head(text);
  EXPECT_EQ(head.match, Match::kYes);
  EXPECT_EQ(head.name, "f");
  EXPECT_TRUE(head.has_arguments);
  EXPECT_EQ(text.substr(head.length), "{\"a\": 1}}");
}

TEST(CallHead, EachBeginningOfAHeadMayBecomeOne) {
  const std::string text = "\n { \"type\" : \"function\" , \"name\":\"a\\\"b\",\t\"parameters\" : {";
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(read_call_head(text.substr(0, length)).match, Match::kPartly) << text.substr(0, length);
  EXPECT_EQ(read_call_head(text).match, Match::kYes);
}

TEST(CallHead, RefusesOtherText) {
  for (const char* text : {"x", "[", "{\"nome\"", "{\"name\": 1", "{\"name\": \"\"}", "{\"name\": \"f\"]",
                           "{\"name\": \"f\", \"args\"", "{\"name\": \"f\", \"arguments\": \"", "{}",
                           "{\"type\": \"object\"", "{\"name\": \"\\x\"}"})
    EXPECT_EQ(read_call_head(text).match, Match::kNo) << text;
  EXPECT_EQ(read_call_head("{\"name\": \"" + std::string(1000, 'a')).match, Match::kNo);
}

TEST(JsonNesting, FindsTheEndOfAnObject) {
  JsonNesting nesting;
  const std::string text = R"({"a": ["]}", "\"}"], "b": {}} more)";
  EXPECT_EQ(nesting.read(text), text.size() - 5);
  EXPECT_TRUE(nesting.ended());
  EXPECT_EQ(nesting.read("more"), 0u);
}

TEST(JsonNesting, GoesOnWhereThePieceEnded) {
  JsonNesting nesting(1);
  EXPECT_EQ(nesting.read("\"\\"), 2u);
  EXPECT_EQ(nesting.read("\"}"), 2u);
  EXPECT_FALSE(nesting.ended());
  EXPECT_EQ(nesting.read("\"}}"), 2u);
  EXPECT_TRUE(nesting.ended());
}

}  // namespace
}  // namespace serval
