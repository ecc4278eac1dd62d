#include "engine/server/service/answer_pieces.h"

#include <string>

#include "gtest/gtest.h"

namespace serval::server {
namespace {

Piece whole_of(AnswerPieces& pieces, const std::string& text) {
  Piece whole;
  for (const char c : text)
    for (const Piece& piece : pieces.push(std::string(1, c))) append(whole, piece);
  for (const Piece& piece : pieces.finish()) append(whole, piece);
  return whole;
}

TEST(AnswerPieces, APlainAnswerIsItsText) {
  AnswerPieces pieces(AnswerShape{});
  EXPECT_EQ(whole_of(pieces, "<think> <tool_call>").text, "<think> <tool_call>");
  EXPECT_FALSE(pieces.has_calls() || pieces.counts_tokens());
}

TEST(AnswerPieces, JoinToReasoningContentAndCalls) {
  AnswerPieces pieces({Reasoning::kOpen, ToolFormat::kHermes});
  const Piece whole = whole_of(pieces,
                               "Hm.</think>So.\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}"
                               "</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {");
  EXPECT_EQ(whole.reasoning, "Hm.");
  EXPECT_EQ(whole.text, "So.");
  ASSERT_EQ(whole.calls.size(), 2u);
  EXPECT_EQ(whole.calls[0].name, "f");
  EXPECT_EQ(whole.calls[0].arguments, "{\"a\": 1}");
  EXPECT_TRUE(whole.calls[0].ends);
  EXPECT_EQ(whole.calls[1].index, 1u);
  EXPECT_EQ(whole.calls[1].arguments, "{");
  EXPECT_FALSE(whole.calls[1].ends);
  EXPECT_NE(whole.calls[0].id, whole.calls[1].id);
  EXPECT_TRUE(whole.calls[0].id.starts_with("call_"));
  EXPECT_TRUE(pieces.has_calls());
}

TEST(AnswerPieces, MistralsIdsHaveNineCharacters) {
  AnswerPieces pieces({Reasoning::kNone, ToolFormat::kMistral});
  const Piece whole = whole_of(pieces, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]");
  EXPECT_EQ(whole.calls.at(0).id.size(), 9u);
}

TEST(AnswerPieces, CountTheTokensOfTheReasoning) {
  AnswerPieces pieces({Reasoning::kMayOpen, ToolFormat::kNone});
  for (const char* token : {"<think>", "Hm", "</think>", "So"}) pieces.count(token);
  EXPECT_EQ(pieces.reasoning_tokens(), 2u);
}

}  // namespace
}  // namespace serval::server
