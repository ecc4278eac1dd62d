#include "engine/grammar/answer_grammar.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/grammar/json_schema.h"
#include "tests/grammar/reading.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;
using ::testing::StartsWith;

const ToolFunction kAdd{.name = "add",
                        .parameters = R"({"type":"object","properties":{"a":{"type":"integer"}},
  "required":["a"]})"};
const ToolFunction kNow{.name = "now"};

AnswerRules rules(ToolFormat format, ToolChoice choice, bool parallel = true) {
  return {.tools = {.format = format, .choice = choice, .functions = {kAdd, kNow}, .parallel = parallel}};
}

Grammar grammar_of(const AnswerRules& rules) {
  return answer_grammar(rules, std::nullopt);
}

const std::string kHermesAdd = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const std::string kLlamaAdd = "{\"name\": \"add\", \"parameters\": {\"a\": 1}}";
const std::string kMistralAdd = "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]";
const std::string kSmolLmAdd = "<tool_call>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]</tool_call>";

TEST(AnswerGrammar, ARequiredCallIsTheWholeAnswer) {
  const auto required = [](ToolFormat format) { return grammar_of(rules(format, ToolChoice::kRequired)); };
  EXPECT_TRUE(reads(required(ToolFormat::kHermes), kHermesAdd));
  EXPECT_TRUE(reads(required(ToolFormat::kLlama3Json), kLlamaAdd));
  EXPECT_TRUE(reads(required(ToolFormat::kLlama3Json), "<|python_tag|>" + kLlamaAdd));
  EXPECT_TRUE(reads(required(ToolFormat::kMistral), kMistralAdd));
  EXPECT_TRUE(reads(required(ToolFormat::kSmolLm2), kSmolLmAdd));
  for (const ToolFormat format :
       {ToolFormat::kHermes, ToolFormat::kLlama3Json, ToolFormat::kMistral, ToolFormat::kSmolLm2}) {
    EXPECT_FALSE(reads(required(format), ""));
    EXPECT_FALSE(begins(required(format), "Hello"));
  }
}

TEST(AnswerGrammar, ACallHasAKnownNameAndValidArguments) {
  const Grammar g = grammar_of(rules(ToolFormat::kHermes, ToolChoice::kRequired));
  const std::string name = "<tool_call>\n{\"name\": \"";
  EXPECT_TRUE(begins(g, name + "now"));
  EXPECT_FALSE(begins(g, name + "nowhere"));
  EXPECT_TRUE(begins(g, name + "add\", \"arguments\": {\"a\": 1"));
  EXPECT_FALSE(begins(g, name + "add\", \"arguments\": {\"a\": \""));
  EXPECT_FALSE(begins(g, name + "add\", \"arguments\": {}"));
  EXPECT_TRUE(reads(g, name + "now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(begins(g, name + "now\", \"arguments\": {\""));
}

TEST(AnswerGrammar, CallsMayFollowEachOtherIfTheyMayBeParallel) {
  const auto both = [](ToolFormat format, const std::string& text) {
    EXPECT_TRUE(reads(grammar_of(rules(format, ToolChoice::kRequired)), text)) << text;
    EXPECT_FALSE(begins(grammar_of(rules(format, ToolChoice::kRequired, false)), text)) << text;
    EXPECT_FALSE(begins(grammar_of(rules(format, ToolChoice::kAuto, false)), text)) << text;
  };
  both(ToolFormat::kHermes, kHermesAdd + "\n" + kHermesAdd);
  both(ToolFormat::kLlama3Json, kLlamaAdd + "; " + kLlamaAdd);
  const std::string two =
      "[{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"now\", \"arguments\": {}}]";
  both(ToolFormat::kMistral, "[TOOL_CALLS]" + two);
  both(ToolFormat::kSmolLm2, "<tool_call>" + two + "</tool_call>");
}

TEST(AnswerGrammar, AutoIsFreeUntilACallOpens) {
  const Grammar g = grammar_of(rules(ToolFormat::kHermes, ToolChoice::kAuto));
  for (const char* text :
       {"", "Hello", "a < b", "<tool", "<tool_box>", "<<tool_cal>", "{\"name\": 1}", "\xE4\xBD"})
    EXPECT_TRUE(reads(g, text)) << text;
  EXPECT_TRUE(reads(g, "So: " + kHermesAdd));
  EXPECT_TRUE(reads(g, kHermesAdd + " Then " + kHermesAdd + " done"));
  EXPECT_FALSE(begins(g, "So: <tool_call>x"));
  EXPECT_FALSE(begins(g, "<<tool_call>{\"name\": \"x"));
  EXPECT_FALSE(reads(g, "So: <tool_call>"));
}

TEST(AnswerGrammar, LlamasCallsOpenAtTheStart) {
  const Grammar g = grammar_of(rules(ToolFormat::kLlama3Json, ToolChoice::kAuto));
  for (const char* text :
       {"", "Hi", " ", "{", "{\"a\": 1}", "{\"type\": \"object\"}", "{\"nam", "Hi {\"name\": 1}"})
    EXPECT_TRUE(reads(g, text)) << text;
  EXPECT_TRUE(reads(g, kLlamaAdd));
  EXPECT_TRUE(reads(g, "\n{ \"type\": \"function\", \"name\": \"now\", \"parameters\": {}}"));
  EXPECT_TRUE(reads(g, "Hi <|python_tag|>" + kLlamaAdd));
  EXPECT_FALSE(begins(g, "{\"name\": 1"));
  EXPECT_FALSE(begins(g,
                      " { \"name\":\"no"
                      "thing"));
  EXPECT_FALSE(reads(g, "{\"name\""));
  EXPECT_FALSE(begins(g, "<|python_tag|>print"));
  EXPECT_FALSE(begins(g, kLlamaAdd + " and"));
}

TEST(AnswerGrammar, JsonOrCalls) {
  const AnswerRules hermes = rules(ToolFormat::kHermes, ToolChoice::kAuto);
  const Grammar g =
      answer_grammar(hermes, compile_json_schema(R"({"type":"array","items":{"type":"null"}})"));
  EXPECT_TRUE(reads(g, "[null]"));
  EXPECT_TRUE(reads(g, kHermesAdd));
  EXPECT_FALSE(reads(g, ""));
  EXPECT_FALSE(begins(g, "Hello"));
}

TEST(AnswerGrammar, AMarkerThatIsATokenIsNotSpelled) {
  AnswerRules all = rules(ToolFormat::kHermes, ToolChoice::kRequired);
  for (size_t i = 0; i < kNumMarkers; ++i) all.markers.ids[i] = static_cast<int32_t>(i);
  const auto byte = [&](std::string_view marker) {
    return std::string(1, static_cast<char>(*all.markers.byte_of(marker)));
  };
  const std::string call = "\n{\"name\": \"now\", \"arguments\": {}}\n" + byte(kToolCallEnd);
  EXPECT_TRUE(reads(grammar_of(all), byte(kToolCallBegin) + call));
  EXPECT_FALSE(begins(grammar_of(all), "<"));
  all.tools.choice = ToolChoice::kAuto;
  EXPECT_TRUE(reads(grammar_of(all), "Hi " + byte(kToolCallBegin) + call));
  EXPECT_TRUE(reads(grammar_of(all), "Hi <tool_call>" + call)) << "text that looks like a call is one";
  EXPECT_FALSE(begins(grammar_of(all), byte(kToolCallEnd)));
}

TEST(AnswerGrammar, RestrictsWhatFollowsReasoning) {
  AnswerRules all = rules(ToolFormat::kHermes, ToolChoice::kRequired);
  all.reasoning = Reasoning::kOpen;
  EXPECT_TRUE(reads(grammar_of(all), "Hm. <tool_call> \n</think>\n\n" + kHermesAdd));
  EXPECT_TRUE(reads(grammar_of(all), "<think>Hm.</think>" + kHermesAdd));
  EXPECT_FALSE(reads(grammar_of(all), "Hm."));
  EXPECT_FALSE(begins(grammar_of(all), "Hm.</think>So"));
  all.reasoning = Reasoning::kMayOpen;
  EXPECT_TRUE(reads(grammar_of(all), "<think>\nHm.\n</think>\n\n" + kHermesAdd));
  EXPECT_TRUE(reads(grammar_of(all), kHermesAdd));
  EXPECT_FALSE(begins(grammar_of(all), "Hm."));
  const Grammar json = answer_grammar({.reasoning = Reasoning::kOpen}, json_object_grammar());
  EXPECT_TRUE(reads(json, "So {1\n</think>\n\n{\"a\": 1}"));
  EXPECT_FALSE(begins(json, "So</think>x"));
}

TEST(AnswerGrammar, MayEndReasoningAtOnce) {
  AnswerRules all{.reasoning = Reasoning::kOpen, .ends_reasoning = true};
  EXPECT_TRUE(reads(grammar_of(all), "</think>\n\nHello"));
  EXPECT_FALSE(begins(grammar_of(all), "x"));
  const Grammar json = answer_grammar(all, json_object_grammar());
  EXPECT_TRUE(reads(json, "</think>{}"));
  EXPECT_FALSE(reads(json, "</think>"));
}

std::string refusal(const ToolFunction& function, ToolChoice choice) {
  AnswerRules all = rules(ToolFormat::kHermes, choice);
  all.tools.functions = {function};
  try {
    grammar_of(all);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(AnswerGrammar, NamesTheFunctionWhoseSchemaIsNotSupported) {
  const ToolFunction bad{.name = "f", .parameters = R"({"type":"object","not":{}})"};
  EXPECT_THAT(refusal(bad, ToolChoice::kRequired), StartsWith("tools: function f: parameters: #: "));
  EXPECT_EQ(refusal(bad, ToolChoice::kAuto), "accepted") << "any object is, then";
  ToolFunction strict = bad;
  strict.strict = true;
  EXPECT_THAT(refusal(strict, ToolChoice::kAuto), StartsWith("tools: function f: parameters: #: "));
  EXPECT_THAT(refusal({.name = "f", .parameters = R"({"type":"string"})"}, ToolChoice::kRequired),
              StartsWith("tools: function f: parameters: type"));
}

TEST(AnswerGrammar, ArgumentsAreAnObject) {
  AnswerRules all = rules(ToolFormat::kHermes, ToolChoice::kRequired);
  all.tools.functions = {{.name = "f", .parameters = "{}"}};
  EXPECT_TRUE(reads(grammar_of(all), "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>"));
  EXPECT_FALSE(begins(grammar_of(all), "<tool_call>{\"name\":\"f\",\"arguments\":1"));
}

}  // namespace
}  // namespace serval::testing
