#include "engine/answer/answer_parser.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace serval {
namespace {

using Kind = AnswerEvent::Kind;
using Events = std::vector<AnswerEvent>;

constexpr AnswerShape kHermes{.tools = ToolFormat::kHermes}, kLlama{.tools = ToolFormat::kLlama3Json},
    kMistral{.tools = ToolFormat::kMistral}, kSmolLm{.tools = ToolFormat::kSmolLm2};

AnswerEvent content(std::string text) {
  return {Kind::kContent, std::move(text)};
}
AnswerEvent reasoning(std::string text) {
  return {Kind::kReasoning, std::move(text)};
}

// The events of a complete call.
Events call(size_t index, std::string name, std::string arguments) {
  return {{Kind::kCallBegin, std::move(name), index},
          {Kind::kArguments, std::move(arguments), index},
          {Kind::kCallEnd, "", index}};
}

Events joined(std::vector<Events> parts) {
  Events all;
  for (Events& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Adds events, with adjacent pieces of one part joined.
void add(Events& all, const Events& more) {
  for (const AnswerEvent& event : more) {
    const bool is_piece = event.kind != Kind::kCallBegin && event.kind != Kind::kCallEnd;
    if (is_piece && !all.empty() && all.back().kind == event.kind && all.back().call == event.call) {
      all.back().text += event.text;
    } else {
      all.push_back(event);
    }
  }
}

Events parse(const AnswerShape& shape, const std::vector<std::string>& pieces) {
  AnswerParser parser(shape);
  Events events;
  for (const std::string& piece : pieces) add(events, parser.push(piece));
  add(events, parser.finish());
  return events;
}

std::vector<std::string> random_pieces(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    pieces.push_back(text.substr(at, 1 + random() % 7));
    at += pieces.back().size();
  }
  return pieces;
}

// Checks the events of a text however it is divided: at each byte, byte by byte, and at random.
void expect(const AnswerShape& shape, const std::string& text, const Events& expected) {
  EXPECT_EQ(parse(shape, {text}), expected) << text;
  for (size_t cut = 1; cut < text.size(); ++cut)
    EXPECT_EQ(parse(shape, {text.substr(0, cut), text.substr(cut)}), expected) << text << " cut at " << cut;
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(shape, bytes), expected) << text << " byte by byte";
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(parse(shape, random_pieces(text, random)), expected) << text;
}

TEST(AnswerParser, LeavesATextWithoutMarkersAsItIs) {
  const std::string text = " Hello,\n <b>you</b> [x] {\"a\": 1} <think> </tool_call> \n";
  for (const AnswerShape& shape : {AnswerShape(), kHermes, kLlama, kMistral, kSmolLm})
    expect(shape, text, {content(text)});
  expect({}, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
         {content("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")});
  expect(kHermes, "", {});
  expect(kHermes, " \n", {content(" \n")});
}

TEST(AnswerParser, ReadsHermesCalls) {
  expect(kHermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, {}]}}\n</tool_call>",
         call(0, "add", "{\"a\": 1, \"b\": [2, {}]}"));
  expect(kHermes,
         "I'll look.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": "
         "\"}</tool_call>\\\"{\"}}\n</tool_call>\n"
         "<tool_call>{ \"name\" :\"b\",\"arguments\":{}}</tool_call>\n Done. ",
         joined({{content("I'll look.")},
                 call(0, "a", "{\"x\": \"}</tool_call>\\\"{\"}"),
                 call(1, "b", "{}"),
                 {content("Done. ")}}));
}

TEST(AnswerParser, ReadsLlamasCalls) {
  expect(kLlama, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}", call(0, "add", "{\"a\": 1}"));
  expect(kLlama, " \n{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}", call(0, "add", "{}"));
  expect(kLlama,
         "<|python_tag|>{\"name\": \"a\", \"parameters\": {}}; {\"name\": \"b\", \"parameters\": {\"c\": 2}}",
         joined({call(0, "a", "{}"), call(1, "b", "{\"c\": 2}")}));
  expect(kLlama, "Well: <|python_tag|>{\"name\": \"a\", \"parameters\": {}}",
         joined({{content("Well:")}, call(0, "a", "{}")}));
}

TEST(AnswerParser, LlamasCallsWithoutAMarkerBeginTheAnswer) {
  for (const char* text :
       {"So: {\"name\": \"a\", \"parameters\": {}}", "{\"named\": 1}", "{\"name\": 1}",
        "{\"name\": \"a\", \"parameter\": {}}", "<|python_tag|>print(1)", "{\"name\": \"a\""})
    expect(kLlama, text, {content(text)});
}

TEST(AnswerParser, ReadsMistralsCalls) {
  expect(kMistral, "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]",
         call(0, "add", "{\"a\": 1}"));
  expect(kMistral,
         "Ok [TOOL_CALLS][{\"name\": \"a\", \"arguments\": {}, \"id\": \"123456789\"}, "
         "{\"name\": \"b\", \"arguments\": {\"x\": \"]\"}}]",
         joined({{content("Ok")}, call(0, "a", "{}"), call(1, "b", "{\"x\": \"]\"}")}));
}

TEST(AnswerParser, ReadsSmolLm2sCalls) {
  expect(kSmolLm, "<tool_call>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]</tool_call>",
         call(0, "add", "{\"a\": 1}"));
  expect(kSmolLm,
         "<tool_call>[{\"name\": \"a\", \"arguments\": {}},\n {\"name\": \"b\", \"arguments\": "
         "{}}]\n</tool_call>\n",
         joined({call(0, "a", "{}"), call(1, "b", "{}")}));
}

TEST(AnswerParser, ACallWithoutArgumentsHasNone) {
  expect(kHermes, "<tool_call>{\"name\": \"now\"}</tool_call>", call(0, "now", "{}"));
}

TEST(AnswerParser, ANameMayHaveEscapes) {
  expect(kHermes, "<tool_call>{\"name\": \"a\\u0062\\\"\", \"arguments\": {}}</tool_call>",
         call(0, "ab\"", "{}"));
}

TEST(AnswerParser, WhatHasNoFunctionNameIsContent) {
  for (const char* text : {"<tool_call>", "a <tool_call>\n{\"name\": \"f", "<tool_call>{}</tool_call> b",
                           "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
                           "<tool_call>{\"name\": \"f\", \"arguments\": 1}</tool_call>"})
    expect(kHermes, text, {content(text)});
  expect(kHermes, "<tool_call> <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
         joined({{content("<tool_call>")}, call(0, "f", "{}")}));
}

TEST(AnswerParser, ACallThatIsCutHasNoEnd) {
  expect(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1",
         {{Kind::kCallBegin, "f", 0}, {Kind::kArguments, "{\"a\": [1", 0}});
  expect(kHermes, "<tool_call>{\"name\": \"f\", \"argum", {{Kind::kCallBegin, "f", 0}});
  expect(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool", call(0, "f", "{}"));
  expect(kMistral, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}", call(0, "f", "{}"));
}

TEST(AnswerParser, SplitsReasoningFromContent) {
  const AnswerShape may{.reasoning = Reasoning::kMayOpen}, open{.reasoning = Reasoning::kOpen};
  const Events both = {reasoning("Hm.\n\nSo"), content("Forty-two.\n")};
  expect(may, "<think>\nHm.\n\nSo\n</think>\n\nForty-two.\n", both);
  expect(open, "\nHm.\n\nSo\n</think>\n\nForty-two.\n", both);
  expect(open, "<think>\nHm.\n\nSo\n</think>Forty-two.\n", both);
  expect(may, "<think>\n\n</think>\n\nYes", {content("Yes")});
  expect(may, " <thinking> is not", {content(" <thinking> is not")});
  expect(may, " \n<thin", {content(" \n<thin")});
}

TEST(AnswerParser, ReasoningThatIsCutStaysReasoning) {
  expect({.reasoning = Reasoning::kOpen}, "Hm.\n</thi", {reasoning("Hm.\n</thi")});
  expect({.reasoning = Reasoning::kMayOpen}, "<think>Hm.\n", {reasoning("Hm.\n")});
}

TEST(AnswerParser, CallsInReasoningAreReasoning) {
  const std::string one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  expect({Reasoning::kOpen, ToolFormat::kHermes}, "So " + one + "?</think>\n" + one,
         joined({{reasoning("So " + one + "?")}, call(0, "f", "{}")}));
  expect({Reasoning::kMayOpen, ToolFormat::kLlama3Json}, "{\"name\": \"f\", \"parameters\": {}}",
         call(0, "f", "{}"));
  expect({Reasoning::kOpen, ToolFormat::kLlama3Json}, "x</think>\n\n{\"name\": \"f\", \"parameters\": {}}",
         joined({{reasoning("x")}, call(0, "f", "{}")}));
}

// Texts of markers, parts of calls and their beginnings, in any order.
std::string random_text(std::mt19937& random) {
  const std::string parts[] = {"<think>",
                               "</think>",
                               "<tool_call>",
                               "</tool_call>",
                               "[TOOL_CALLS]",
                               "<|python_tag|>",
                               "{\"name\": ",
                               "\"f\"",
                               ", ",
                               "\"arguments\": ",
                               "\"parameters\": ",
                               "{}",
                               "{\"a\": 1}",
                               "}",
                               "]",
                               "[",
                               ";",
                               "\n",
                               " ",
                               "x",
                               "\"",
                               "\\",
                               "{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}"};
  std::string text;
  for (size_t length = random() % 12; length > 0; --length) {
    const std::string& part = parts[random() % std::size(parts)];
    text += part.substr(0, random() % 8 == 0 ? random() % part.size() : part.size());
  }
  return text;
}

TEST(AnswerParser, TheEventsOfAnyTextDoNotDependOnItsPieces) {
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const AnswerShape shape{static_cast<Reasoning>(random() % 3), static_cast<ToolFormat>(random() % 5)};
    const std::string text = random_text(random);
    const Events whole = parse(shape, {text});
    ASSERT_EQ(parse(shape, random_pieces(text, random)), whole)
        << text << " with reasoning " << int(shape.reasoning) << " and tools " << int(shape.tools);
    const auto count = [&](Kind kind) { return std::ranges::count(whole, kind, &AnswerEvent::kind); };
    EXPECT_LE(count(Kind::kCallEnd), count(Kind::kCallBegin));
    EXPECT_GE(count(Kind::kCallEnd) + 1, count(Kind::kCallBegin));
  }
}

TEST(AnswerParser, DeliversTextAsSoonAsItIsDecided) {
  AnswerParser parser(kHermes);
  EXPECT_EQ(parser.push("Hello"), Events{content("Hello")});
  EXPECT_EQ(parser.push(" <tool"), Events{});
  EXPECT_EQ(parser.push("box>"), Events{content(" <toolbox>")});
  EXPECT_EQ(parser.push("<tool_call>{\"name\": \"f\", \"arguments\": "), Events{});
  EXPECT_EQ(parser.push("{\"a"), (Events{{Kind::kCallBegin, "f", 0}, {Kind::kArguments, "{\"a", 0}}));
  EXPECT_EQ(parser.push("\": 1"), (Events{{Kind::kArguments, "\": 1", 0}}));
  EXPECT_EQ(parser.push("}}"), (Events{{Kind::kArguments, "}", 0}, {Kind::kCallEnd, "", 0}}));
}

}  // namespace
}  // namespace serval
