#include "engine/core/request.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/core/sampling_parameters.h"

namespace serval {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const ModelLimits kLimits{.vocab_size = 1000, .context = 64, .stop_tokens = {7, 9}};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "accepted";
}

std::string refusal_of(const Request& request) {
  return refusal([&] { check_request(request); });
}

std::string refusal_with(const std::function<void(Request&)>& change) {
  Request request{.prompt = "x"};
  change(request);
  return refusal_of(request);
}

TEST(Request, TakesTheDefaults) {
  EXPECT_EQ(refusal_of({.prompt = "Once"}), "accepted");
}

TEST(Request, NamesTheSamplingParameterThatIsOutOfRange) {
  EXPECT_EQ(refusal_with([](Request& r) { r.sampling.temperature = 100.5f; }),
            "temperature: 100.5; limit: 0 to 100");
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.temperature = -1; }), HasSubstr("temperature: -1"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.temperature = NAN; }), HasSubstr("temperature: nan"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.top_k = -1; }), HasSubstr("top_k: -1"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.top_p = 0; }), HasSubstr("top_p: 0"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.top_p = NAN; }), HasSubstr("top_p: nan"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.min_p = 1.5f; }), HasSubstr("min_p: 1.5"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.repetition_penalty = 0; }),
              HasSubstr("repetition_penalty: 0; limit: above 0, up to 10"));
  EXPECT_THAT(refusal_with([](Request& r) { r.sampling.repetition_penalty = 11; }), HasSubstr("up to 10"));
}

TEST(Request, ChecksEveryParameterOfTheTableAgainstItsRange) {
  for (const SamplingParameter& parameter : sampling_parameters()) {
    const SamplingRange& range = parameter.range;
    const auto refused = [&](double value) {
      return refusal_with([&](Request& r) { parameter.set(r.sampling, value); });
    };
    const std::string line = std::string(range.name) + ": ";
    EXPECT_THAT(refused(range.least - 1), HasSubstr(line));
    EXPECT_EQ(refused(range.least_excluded ? range.least + 0.5 : range.least), "accepted") << range.name;
    EXPECT_EQ(refused(range.most), "accepted") << range.name;
    if (range.is_whole) continue;
    EXPECT_THAT(refused(range.most + 1), HasSubstr(line));
    EXPECT_THAT(refused(NAN), HasSubstr(line + "nan"));
  }
  EXPECT_EQ(refusal_with([](Request& r) { r.sampling.presence_penalty = 2.5f; }),
            "presence_penalty: 2.5; limit: -2 to 2");
  EXPECT_EQ(refusal_with([](Request& r) { r.sampling.frequency_penalty = -2.5f; }),
            "frequency_penalty: -2.5; limit: -2 to 2");
  EXPECT_EQ(refusal_with([](Request& r) { r.sampling.repeat_last_n = -2; }),
            "repeat_last_n: -2; limit: -1 to 2147483647");
}

TEST(Request, RefusesBiasesOutOfRange) {
  EXPECT_EQ(refusal_with([](Request& r) {
              r.logit_bias = {{3, 1}, {4, 100.5f}};
            }),
            "logit_bias[1]: 100.5; limit: -100 to 100");
  EXPECT_THAT(refusal_with([](Request& r) { r.logit_bias = {{3, NAN}}; }), HasSubstr("logit_bias[0]: nan"));
  EXPECT_EQ(refusal_with([](Request& r) {
              r.logit_bias = {{3, 1}, {4, 1}, {3, 2}};
            }),
            "logit_bias: token 3 is given twice");
  EXPECT_EQ(refusal_with([](Request& r) {
              for (int32_t t = 0; t <= 1024; ++t) r.logit_bias.push_back({t, 1});
            }),
            "logit_bias: 1025 tokens; limit: 1024");
  Request beyond;
  beyond.logit_bias = {{5, 1}, {1000, 1}};
  EXPECT_EQ(refusal([&] { prepare_request(beyond, {1}, kLimits); }),
            "logit_bias[1]: token 1000; limit: 0 to 999 (the vocabulary)");
}

TEST(Request, RefusesAMinimumOfTokensThatCannotBe) {
  EXPECT_EQ(refusal_with([](Request& r) { r.min_tokens = -1; }), "min_tokens: -1; limit: 0 to 2147483647");
  EXPECT_EQ(refusal_with([](Request& r) { r.min_tokens = 6, r.max_tokens = 5; }),
            "min_tokens: 6; limit: max_tokens (5)");
  EXPECT_EQ(refusal_with([](Request& r) { r.min_tokens = r.max_tokens = 5; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.min_tokens = 1 << 30; }),
            "accepted");  // limited by the room in the context
  EXPECT_EQ(prepare_request({.min_tokens = 1 << 30}, {1}, kLimits).min_tokens, 63u);
}

TEST(Request, HasOneFormat) {
  EXPECT_EQ(refusal_with([](Request& r) { r.regex = "a"; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.choice = {"a", ""}; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.grammar = "root ::= \"a\""; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.regex = "a", r.grammar = "b"; }),
            "regex and grammar: set either, not both");
  EXPECT_EQ(refusal_with([](Request& r) { r.json_object = true, r.choice = {"a"}; }),
            "json_object and choice: set either, not both");
  EXPECT_EQ(refusal_with([](Request& r) { r.grammar = "\xff"; }), "grammar: not UTF-8");
  EXPECT_EQ(refusal_with([](Request& r) { r.choice = {"a", "\xff"}; }), "choice: not UTF-8");
  EXPECT_EQ(refusal_with([](Request& r) { r.choice = {"a"}, r.min_tokens = 3; }),
            "choice: not with min_tokens; set either, not both");
  EXPECT_EQ(refusal_with([](Request& r) { r.grammar = "a", r.ignore_eos = true; }),
            "grammar: not with ignore_eos; set either, not both");
}

TEST(Request, IsOfOneKindOfJson) {
  EXPECT_EQ(refusal_with([](Request& r) { r.json_object = true; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.json_schema = "{}"; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.json_object = true, r.json_schema = "{}"; }),
            "json_object and json_schema: set either, not both");
  EXPECT_EQ(refusal_with([](Request& r) { r.json_object = true, r.min_tokens = 3; }),
            "json_object: not with min_tokens; set either, not both");
  EXPECT_EQ(refusal_with([](Request& r) { r.json_schema = "{}", r.ignore_eos = true; }),
            "json_schema: not with ignore_eos; set either, not both");
}

TEST(Request, ListsUpToTwentyTokens) {
  EXPECT_EQ(refusal_with([](Request& r) { r.top_logprobs = 20; }), "accepted");
  EXPECT_EQ(refusal_with([](Request& r) { r.top_logprobs = 21; }), "top_logprobs: 21; limit: 0 to 20");
  ModelLimits small = kLimits;
  small.vocab_size = 12;
  EXPECT_EQ(prepare_request({.top_logprobs = 20}, {1}, small).top_logprobs, 12u);
}

TEST(Request, RefusesANumberOfTokensBelowMinusOne) {
  EXPECT_THAT(refusal_with([](Request& r) { r.max_tokens = -2; }), HasSubstr("max_tokens: -2"));
}

TEST(Request, RefusesStopStringsThatCannotStop) {
  EXPECT_THAT(refusal_with([](Request& r) { r.stop = {"a", ""}; }), HasSubstr("stop[1]: empty"));
  EXPECT_THAT(refusal_with([](Request& r) { r.stop = {"\xff"}; }), HasSubstr("stop[0]: not UTF-8"));
  EXPECT_THAT(refusal_with([](Request& r) { r.stop.assign(65, "a"); }), HasSubstr("65 strings; limit: 64"));
  EXPECT_THAT(refusal_with([](Request& r) { r.stop = {std::string(2000, 'a')}; }), HasSubstr("2000 bytes"));
}

TEST(Request, RefusesToolsThatCannotBeCalled) {
  const auto refusal_of_tools = [](const ToolRules& tools) {
    return refusal_with([&](Request& r) { r.tools = tools; });
  };
  ToolRules tools{.format = ToolFormat::kHermes, .choice = ToolChoice::kAuto};
  EXPECT_THAT(refusal_of_tools(tools), HasSubstr("tools: functions: 0; limit: 1 to 128"));
  tools.functions = {{.name = "f"}, {.name = "f"}};
  EXPECT_THAT(refusal_of_tools(tools), HasSubstr("function f is given twice"));
  tools.functions = {{.name = ""}};
  EXPECT_THAT(refusal_of_tools(tools), HasSubstr("without a name"));
  tools.functions = {{.name = "f"}};
  tools.format = ToolFormat::kNone;
  EXPECT_THAT(refusal_of_tools(tools), HasSubstr("format: none"));
  tools.format = ToolFormat::kHermes;
  EXPECT_THAT(refusal_with([&](Request& r) {
                r.tools = tools;
                r.ignore_eos = true;
              }),
              HasSubstr("tools: not with ignore_eos"));
}

TEST(Request, RefusesALimitOfReasoningThatCannotBeKept) {
  EXPECT_THAT(refusal_with([](Request& r) { r.max_reasoning_tokens = -2; }),
              HasSubstr("max_reasoning_tokens: -2"));
  EXPECT_THAT(refusal_with([](Request& r) { r.max_reasoning_tokens = 5; }), HasSubstr("has no reasoning"));
  EXPECT_THAT(refusal_with([](Request& r) {
                r.max_reasoning_tokens = 5;
                r.reasoning = Reasoning::kOpen;
                r.min_tokens = 3;
              }),
              HasSubstr("max_reasoning_tokens: not with min_tokens"));
}

TEST(Request, RefusesAnEmptyPrompt) {
  EXPECT_THAT(refusal_of({}), HasSubstr("prompt: empty"));
  EXPECT_THAT(refusal([] { prepare_request({.prompt = "x"}, {}, kLimits); }), HasSubstr("prompt: empty"));
}

TEST(Request, RefusesTwoPromptsAtOnce) {
  EXPECT_THAT(refusal_of({.prompt_ids = {1}, .messages = {{"user", "hi"}}}),
              HasSubstr("set either, not both"));
}

TEST(Request, RefusesIdsOutsideTheVocabulary) {
  EXPECT_EQ(refusal([] {
              prepare_request({}, {5, 1000}, kLimits);
            }),
            "prompt_ids[1]: token 1000; limit: 0 to 999 (the vocabulary)");
  EXPECT_THAT(refusal([] { prepare_request({}, {-1}, kLimits); }), HasSubstr("token -1"));
}

TEST(Request, LeavesRoomForOneTokenInTheContext) {
  EXPECT_EQ(refusal([] { prepare_request({}, std::vector<int32_t>(64, 1), kLimits); }),
            "prompt: 64 tokens; limit: 63 (context 64)");
  EXPECT_EQ(prepare_request({}, std::vector<int32_t>(63, 1), kLimits).max_tokens, 1u);
}

TEST(Request, GeneratesNoMoreThanTheContextHolds) {
  const std::vector<int32_t> prompt(60, 1);
  EXPECT_EQ(prepare_request({.max_tokens = 100}, prompt, kLimits).max_tokens, 4u);
  EXPECT_EQ(prepare_request({.max_tokens = 2}, prompt, kLimits).max_tokens, 2u);
  EXPECT_EQ(prepare_request({.max_tokens = -1}, prompt, kLimits).max_tokens, 4u);
  EXPECT_EQ(prepare_request({.max_tokens = 0}, prompt, kLimits).max_tokens, 0u);
}

TEST(Request, DoesNotRunTheLastToken) {
  const std::vector<int32_t> prompt(60, 1);
  EXPECT_EQ(prepare_request({.max_tokens = 2}, prompt, kLimits).positions(), 61u);
  EXPECT_EQ(prepare_request({.max_tokens = 1}, prompt, kLimits).positions(), 60u);
  EXPECT_EQ(prepare_request({.max_tokens = 0}, prompt, kLimits).positions(), 60u);
}

TEST(Request, IgnoresTheModelsEndWhereAsked) {
  EXPECT_EQ(prepare_request({}, {1}, kLimits).stop_tokens, (std::vector<int32_t>{7, 9}));
  EXPECT_TRUE(prepare_request({.ignore_eos = true}, {1}, kLimits).stop_tokens.empty());
}

}  // namespace
}  // namespace serval
