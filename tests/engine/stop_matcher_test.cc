#include "engine/text/stop_matcher.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

struct Result {
  std::string text;
  bool stopped;
  bool operator==(const Result&) const = default;
};

Result match(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) text += matcher.push(piece);
  return {text + matcher.flush(), matcher.stopped()};
}

// The definition, byte by byte: the first byte that completes a stop string ends the text before that string.
Result match_by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

TEST(StopMatcher, FindsAStopStringAcrossPieces) {
  EXPECT_EQ(match({"END"}, {"one E", "N", "D two"}), (Result{"one ", true}));
}

TEST(StopMatcher, NamesTheStopStringThatEndedTheText) {
  StopMatcher matcher({"END", "ND."});
  EXPECT_EQ(matcher.push("one E"), "one ");
  EXPECT_EQ(matcher.matched(), "");
  matcher.push("ND.");
  EXPECT_EQ(matcher.matched(), "END");
}

TEST(StopMatcher, MayIncludeTheStopStringButNothingAfterIt) {
  StopMatcher matcher({"END"}, true);
  EXPECT_EQ(matcher.push("one E"), "one ");
  EXPECT_EQ(matcher.push("ND two"), "END");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.matched(), "END");
}

TEST(StopMatcher, ReleasesWhatTurnsOutNotToBeAStopString) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("one E"), "one ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("T"), "ENT");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStopString) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.push("aaa"), "a");
  EXPECT_EQ(matcher.push("a"), "a");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, SaysNothingOnceStopped) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.push("a.b"), "a");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TakesTheStopStringThatIsCompleteFirst) {
  EXPECT_EQ(match({"bcd", "c"}, {"abcd"}), (Result{"ab", true}));
  EXPECT_EQ(match({"c", "bc"}, {"abc"}), (Result{"a", true}));
}

TEST(StopMatcher, KeepsCharactersWholeWhenTheirFirstByteBeginsAStopString) {
  StopMatcher matcher({"é"});
  EXPECT_EQ(matcher.push("è"), "è");
}

TEST(StopMatcher, MatchesItsDefinitionForAnyDivisionIntoPieces) {
  std::mt19937 random(7);
  const auto text_of = [&](size_t length) {
    std::string text;
    while (text.size() < length) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i) stops.push_back(text_of(1 + random() % 5));
    const std::string text = text_of(random() % 40);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
      pieces.push_back(text.substr(at, 1 + random() % 6));
    }
    EXPECT_EQ(match(stops, pieces), match_by_definition(stops, text)) << text << " stop " << stops[0];
  }
}

}  // namespace
}  // namespace serval
