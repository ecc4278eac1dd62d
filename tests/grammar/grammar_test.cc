#include "engine/grammar/grammar.h"

#include "gtest/gtest.h"

#include "tests/grammar/reading.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using grammar::Grammar;
using grammar::kNoLimit;
using grammar::RuleId;
using grammar::StateId;

RuleId literal(Grammar& g, std::string_view text) {
  const StateId start = g.add_state();
  g.literal(start, text, g.add_end());
  return g.add_rule(start);
}

// "ab" `least` to `most` times, then "c".
Grammar repeated(uint32_t least, uint32_t most) {
  Grammar g;
  const StateId start = g.add_state(), last = g.add_state();
  g.loop(start, {literal(g, "ab"), least, most, last, false});
  g.byte(last, 'c', 'c', g.add_end());
  g.set_top(g.add_rule(start));
  g.finish();
  return g;
}

TEST(Grammar, RepeatsWithinLimits) {
  const Grammar g = repeated(2, 4);
  for (const auto& [times, valid] : {std::pair(0, false), {1, false}, {2, true}, {4, true}, {5, false}}) {
    std::string text;
    for (int i = 0; i < times; ++i) text += "ab";
    EXPECT_EQ(reads(g, text + "c"), valid) << times;
  }
  EXPECT_TRUE(reads(repeated(0, kNoLimit), "c"));
  EXPECT_TRUE(reads(repeated(3, kNoLimit), "abababababc"));
  EXPECT_FALSE(reads(repeated(3, kNoLimit), "ababc"));
}

// Nested brackets need a stack.
TEST(Grammar, CallsItself) {
  Grammar g;
  const StateId start = g.add_state(), inside = g.add_state(), last = g.add_state(), end = g.add_end();
  const RuleId rule = g.add_rule(start);
  g.byte(start, '(', '(', inside);
  g.call(inside, rule, last);
  g.jump(inside, last);
  g.byte(last, ')', ')', end);
  g.set_top(rule);
  g.finish();
  EXPECT_TRUE(reads(g, "((((()))))"));
  EXPECT_TRUE(begins(g, "((((())"));
  EXPECT_FALSE(reads(g, "((((())"));
  EXPECT_FALSE(begins(g, "(()))"));
}

TEST(Grammar, LiteralsThatBeginAlikeStayApart) {
  Grammar g;
  const StateId start = g.add_state(), end = g.add_end();
  for (const char* text : {"true", "trueish", "try", "t", "true"}) g.literal(start, text, end);
  g.set_top(g.add_rule(start));
  g.finish();
  for (const char* text : {"true", "trueish", "try", "t"}) EXPECT_TRUE(reads(g, text)) << text;
  for (const char* text : {"", "tr", "trueis", "tryish", "tt"}) EXPECT_FALSE(reads(g, text)) << text;
}

// A text that cannot be completed must not be begun.
TEST(Grammar, DropsDeadEnds) {
  Grammar g;
  const StateId start = g.add_state(), dead = g.add_state(), end = g.add_end();
  g.byte(start, 'a', 'a', dead);
  g.byte(start, 'b', 'b', end);
  g.call(start, g.add_rule(dead), end);
  g.set_top(g.add_rule(start));
  g.finish();
  EXPECT_FALSE(begins(g, "a"));
  EXPECT_TRUE(reads(g, "b"));
}

TEST(Grammar, RefusesOneThatNothingMatches) {
  Grammar g;
  const StateId start = g.add_state();
  const RuleId rule = g.add_rule(start);
  const StateId next = g.add_state();
  g.byte(start, 'a', 'a', next);
  g.call(next, rule, g.add_end());
  g.set_top(rule);
  EXPECT_THROW(g.finish(), Error);
}

TEST(Grammar, RefusesARuleThatBeginsWithItself) {
  Grammar g;
  const StateId start = g.add_state(), end = g.add_end();
  const RuleId rule = g.add_rule(start);
  g.byte(start, 'a', 'a', end);
  g.call(start, rule, end);
  g.set_top(rule);
  EXPECT_THROW(g.finish(), Error);
}

}  // namespace
}  // namespace serval::testing
