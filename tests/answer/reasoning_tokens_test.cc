#include "engine/answer/reasoning_tokens.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

uint32_t count(Reasoning reasoning, const std::vector<std::string>& tokens) {
  ReasoningTokens counted(reasoning);
  for (const std::string& token : tokens) counted.add(token);
  return counted.count();
}

TEST(ReasoningTokens, AreThoseBeforeTheMarkerThatEndsThem) {
  EXPECT_EQ(count(Reasoning::kOpen, {"Hm", ".", "</think>", "\n\n", "So"}), 2u);
  EXPECT_EQ(count(Reasoning::kOpen, {"Hm", ".", "\n</", "th", "ink", ">\n\n", "So"}), 3u)
      << "the third one begins before the marker";
  EXPECT_EQ(count(Reasoning::kOpen, {"Hm", ".", "<", "/th", "ink>", "So"}), 2u);
  EXPECT_EQ(count(Reasoning::kOpen, {"</think>"}), 0u);
}

TEST(ReasoningTokens, CountTheMarkerThatTheModelWrites) {
  EXPECT_EQ(count(Reasoning::kMayOpen, {"<think>", "\n", "Hm", "</think>", "So"}), 3u);
  EXPECT_EQ(count(Reasoning::kMayOpen, {"\n<th", "ink>", "</", "think>"}), 2u);
}

TEST(ReasoningTokens, AreNoneWithoutReasoning) {
  EXPECT_EQ(count(Reasoning::kNone, {"<think>", "x"}), 0u);
  EXPECT_EQ(count(Reasoning::kMayOpen, {"<thin", "ner", "<think>"}), 0u);
  EXPECT_EQ(count(Reasoning::kMayOpen, {"Hello", "</think>"}), 0u);
}

TEST(ReasoningTokens, GoOnUntilTheMarker) {
  ReasoningTokens tokens(Reasoning::kOpen);
  for (int i = 0; i < 100; ++i) tokens.add("<<</thin");
  EXPECT_TRUE(tokens.is_open());
  EXPECT_EQ(tokens.count(), 100u);
  tokens.add("k>");
  EXPECT_FALSE(tokens.is_open());
  EXPECT_EQ(tokens.count(), 100u) << "the marker began inside of the last one";
}

}  // namespace
}  // namespace serval
