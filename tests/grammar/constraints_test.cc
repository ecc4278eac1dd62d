#include "engine/grammar/constraints.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/answer/answer_parser.h"
#include "tests/instructions/scene.h"
#include "vm/base/error.h"
#include "vm/state/masks.h"

namespace serval::testing {
namespace {

using namespace grammar;

// All bytes, and after them all markers as tokens.
struct Vocabulary {
  explicit Vocabulary(bool with_markers) {
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    if (!with_markers) return;
    for (size_t i = 0; i < kNumMarkers; ++i) {
      markers.ids[i] = static_cast<int32_t>(texts.size());
      texts.emplace_back(kMarkers[i]);
    }
  }
  Constraints constraints() const {
    return Constraints(
        static_cast<uint32_t>(texts.size()),
        [this](int32_t id) { return std::optional(texts[static_cast<size_t>(id)]); }, markers);
  }

  std::vector<std::string> texts;
  MarkerTokens markers;
};

ToolRules calls(ToolFormat format, ToolChoice choice) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"]})";
  return {
      .format = format, .choice = choice, .functions = {{.name = "f", .parameters = schema}, {.name = "g"}}};
}

struct Walk {
  std::string text;
  std::vector<int32_t> tokens;
  bool complete = false;
};

// A random text of the constraint, of at most `most` tokens. Ends where it may with probability 1/2.
Walk random_text(ConstrainedText text, const Vocabulary& vocabulary, Random& random, size_t most) {
  Walk walk;
  for (walk.complete = text.place().complete; walk.tokens.size() < most;) {
    if (walk.complete && random.between(0, 1) == 0) break;
    std::vector<int32_t> allowed;
    for (uint32_t id = 0; id < vocabulary.texts.size(); ++id)
      if (mask_allows(*text.place().mask, id)) allowed.push_back(static_cast<int32_t>(id));
    if (allowed.empty()) break;
    const int32_t next = random.pick(allowed);
    EXPECT_EQ(*text.after(next).mask, [&] {
      ConstrainedText copy = text;
      copy.add(next);
      return *copy.place().mask;
    }()) << "the place after a token that is not added yet";
    text.add(next);
    walk.tokens.push_back(next);
    walk.text += vocabulary.texts[static_cast<size_t>(next)];
    walk.complete = text.place().complete;
  }
  return walk;
}

TEST(Constraints, EveryCompleteTextOfRequiredCallsParses) {
  for (const bool with_markers : {false, true}) {
    const Vocabulary vocabulary(with_markers);
    Constraints constraints = vocabulary.constraints();
    for (const ToolFormat format :
         {ToolFormat::kHermes, ToolFormat::kLlama3Json, ToolFormat::kMistral, ToolFormat::kSmolLm2}) {
      const auto constraint = constraints.of_answer({.tools = calls(format, ToolChoice::kRequired)}, {});
      Random random(static_cast<uint64_t>(format));
      for (int i = 0; i < 5; ++i) {
        const Walk walk = random_text(ConstrainedText(constraint), vocabulary, random, 2000);
        ASSERT_TRUE(walk.complete) << walk.text;
        AnswerParser parser({.tools = format});
        std::vector<AnswerEvent> events = parser.push(walk.text);
        ASSERT_FALSE(events.empty()) << walk.text;
        EXPECT_EQ(events.front().kind, AnswerEvent::Kind::kCallBegin) << walk.text;
        EXPECT_EQ(events.back().kind, AnswerEvent::Kind::kCallEnd) << walk.text;
        for (const AnswerEvent& event : events)
          EXPECT_NE(event.kind, AnswerEvent::Kind::kContent) << walk.text;
        EXPECT_TRUE(parser.finish().empty());
      }
    }
  }
}

TEST(Constraints, ALimitEndsTheReasoning) {
  for (const bool with_markers : {false, true}) {
    const Vocabulary vocabulary(with_markers);
    Constraints constraints = vocabulary.constraints();
    for (const uint32_t limit : {0U, 1U, 9U, 30U}) {
      AnswerRules rules{.tools = calls(ToolFormat::kHermes, ToolChoice::kRequired),
                        .reasoning = Reasoning::kOpen};
      const auto constraint = constraints.of_answer(rules, {});
      rules.ends_reasoning = true;
      const ReasoningLimit ends{Reasoning::kOpen, limit, constraints.of_answer(rules, {})};
      Random random(limit);
      for (int i = 0; i < 5; ++i) {
        const Walk walk = random_text(ConstrainedText(constraint, ends), vocabulary, random, 3000);
        ReasoningTokens counted(Reasoning::kOpen);
        for (const int32_t token : walk.tokens) counted.add(vocabulary.texts[static_cast<size_t>(token)]);
        EXPECT_TRUE(walk.complete && !counted.is_open()) << walk.text;
        EXPECT_LE(counted.count(), limit) << walk.text;
      }
    }
  }
}

TEST(Constraints, AMarkersTokenIsTheOnlyWayToOpenARequiredCall) {
  const Vocabulary vocabulary(true);
  Constraints constraints = vocabulary.constraints();
  const auto constraint =
      constraints.of_answer({.tools = calls(ToolFormat::kMistral, ToolChoice::kRequired)}, {});
  const ConstrainedText text(constraint);
  for (uint32_t id = 0; id < vocabulary.texts.size(); ++id)
    EXPECT_EQ(mask_allows(*text.place().mask, id), vocabulary.texts[id] == kToolCallsBegin) << id;
  EXPECT_EQ(constraint->text_of(*vocabulary.markers.ids[0]), kMarkers[0]);
}

TEST(Constraints, AreKeptForEqualRules) {
  const Vocabulary vocabulary(false);
  Constraints constraints = vocabulary.constraints();
  AnswerRules rules{.tools = calls(ToolFormat::kHermes, ToolChoice::kAuto)};
  const auto first = constraints.of_answer(rules, {});
  EXPECT_EQ(constraints.of_answer(rules, {}), first);
  EXPECT_NE(constraints.of_answer(rules, Format{.kind = FormatKind::kJsonObject}), first);
  rules.tools.parallel = false;
  const Format format{.kind = FormatKind::kJsonSchema, .text = "true"};
  EXPECT_NE(constraints.of_answer(rules, {}), first);
  EXPECT_EQ(constraints.of_format(format), constraints.of_format(format));
}

}  // namespace
}  // namespace serval::testing
