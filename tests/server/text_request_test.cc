#include "engine/server/api/text_request.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"

namespace serval::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ModelDefaults kDefaults{"toy", {.temperature = 0.5F, .top_k = 7}};

TextRequest completion(const std::string& body) {
  return parse_text_request(body, TextPath::kCompletions, kDefaults);
}
TextRequest chat(const std::string& body) {
  return parse_text_request(body, TextPath::kChat, kDefaults);
}

ApiError refusal_of(const std::string& body, TextPath path = TextPath::kCompletions) {
  try {
    parse_text_request(body, path, kDefaults);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << body << " is accepted";
  return {0, "", ""};
}

TEST(TextRequest, DefaultsAreTheModelsOwn) {
  const TextRequest request = completion(R"({"prompt": "Hi"})");
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "Hi");
  EXPECT_EQ(request.request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.request.sampling.top_k, 7);
  EXPECT_EQ(request.request.max_tokens, 16);
  EXPECT_EQ(request.request.n, 1);
  EXPECT_FALSE(request.stream || request.logprobs || request.echo);
  EXPECT_EQ(chat(R"({"messages": [{"role": "user", "content": "Hi"}]})").request.max_tokens, -1);
}

TEST(TextRequest, ReadsTheTreatmentOfControlTokens) {
  const Request plain = completion(R"({"prompt": "Hi"})").request;
  EXPECT_TRUE(plain.special && plain.add_special_tokens && plain.skip_special_tokens);
  const Request other = completion(R"({"prompt": "Hi", "parse_special": false, "add_special_tokens": false,
    "skip_special_tokens": false})")
                            .request;
  EXPECT_FALSE(other.special || other.add_special_tokens || other.skip_special_tokens);
  const std::string messages = R"({"messages": [{"role": "user", "content": "x"}])";
  EXPECT_FALSE(chat(messages + R"(, "skip_special_tokens": false})").request.skip_special_tokens);
  for (const char* member : {R"("add_special_tokens": true)", R"("parse_special": true)"})
    EXPECT_EQ(refusal_of(messages + ", " + member + "}", TextPath::kChat).code, "unsupported_parameter")
        << member;
}

TEST(TextRequest, ReadsEveryParameter) {
  const TextRequest request =
      completion(R"({"model": "toy", "prompt": "Hi", "max_tokens": 3, "temperature": 0,
    "top_p": 0.5, "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.5, "repeat_last_n": -1,
    "presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {"5": -100, "6": 1.5}, "min_tokens": 2, "seed": -2, "n": 2, "best_of": 2,
    "stop": ["a", "b"], "stop_token_ids": [4], "ignore_eos": true, "logprobs": 0, "stream": true,
    "stream_options": {"include_usage": true}, "priority": -3, "user": "ann", "echo": false})");
  const Request& asked = request.request;
  EXPECT_EQ(asked.max_tokens, 3);
  EXPECT_EQ(asked.sampling.temperature, 0);
  EXPECT_EQ(asked.sampling.top_p, 0.5F);
  EXPECT_EQ(asked.sampling.top_k, 0) << "-1 is vLLM's word for off";
  EXPECT_EQ(asked.sampling.min_p, 0.1F);
  EXPECT_EQ(asked.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(asked.sampling.seed, static_cast<uint64_t>(-2));
  EXPECT_EQ(asked.sampling.repeat_last_n, -1);
  EXPECT_EQ(asked.sampling.presence_penalty, 0.5F);
  EXPECT_EQ(asked.sampling.frequency_penalty, -0.5F);
  ASSERT_EQ(asked.logit_bias.size(), 2U);
  EXPECT_EQ(asked.logit_bias[0].token, 5);
  EXPECT_EQ(asked.logit_bias[0].bias, -100);
  EXPECT_EQ(asked.min_tokens, 2);
  EXPECT_EQ(asked.n, 2);
  EXPECT_THAT(asked.stop, ElementsAre("a", "b"));
  EXPECT_THAT(asked.stop_token_ids, ElementsAre(4));
  EXPECT_TRUE(asked.ignore_eos && request.logprobs && request.stream && request.include_usage);
  EXPECT_EQ(asked.priority, -3);
  EXPECT_EQ(request.user, "ann");
}

TEST(TextRequest, ReadsVllmsParameters) {
  for (const bool is_chat : {false, true}) {
    const std::string prompt =
        is_chat ? R"("messages": [{"role": "user", "content": "x"}])" : R"("prompt": "x")";
    const std::string body = "{" + prompt + R"(, "include_stop_str_in_output": true, "bad_words": ["a", "b"],
      "cache_salt": "ann", "return_token_ids": true, "truncate_prompt_tokens": -1, "speculative": false})";
    const TextRequest request = is_chat ? chat(body) : completion(body);
    EXPECT_TRUE(request.request.include_stop_in_text && request.return_token_ids);
    EXPECT_THAT(request.request.bad_words, ElementsAre("a", "b"));
    EXPECT_EQ(request.request.cache_salt, "ann");
    EXPECT_FALSE(request.request.speculative);
    EXPECT_EQ(request.truncate_prompt_tokens, -1);
  }
  const TextRequest ranked = completion(R"({"prompt": "x", "n": 2, "best_of": 5})");
  EXPECT_EQ(ranked.request.n, 5);
  EXPECT_EQ(ranked.answers, 2);
}

TEST(TextRequest, APromptIsATextOrTokensOrSeveralOfEither) {
  EXPECT_EQ(completion(R"({"prompt": ["a", "b"]})").prompts.size(), 2U);
  EXPECT_THAT(std::get<std::vector<int32_t>>(completion(R"({"prompt": [1, 2]})").prompts.at(0)),
              ElementsAre(1, 2));
  EXPECT_EQ(completion(R"({"prompt": [[1, 2], [3]]})").prompts.size(), 2U);
  for (const char* prompt : {R"("")", "[]", "[[]]", R"(["a", ""])", R"(["a", [1]])", "7", "{}", "[1.5]",
                             "[-1]", "[4294967296]", "[18446744073709551615]", "[true]"})
    EXPECT_EQ(refusal_of(std::string(R"({"prompt": )") + prompt + "}").status, 400) << prompt;
}

TEST(TextRequest, AMessageIsATextOrPartsOfText) {
  const TextRequest request = chat(R"({"messages": [{"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  EXPECT_EQ(messages.at(0).role, "system");
  EXPECT_EQ(messages.at(1).content, "ab");
}

TEST(TextRequest, AMessageMayHaveANameAndEmptyMembers) {
  const TextRequest request = chat(R"({"messages": [{"role": "developer", "content": "Be kind."},
    {"role": "user", "content": "a", "name": "ann"},
    {"role": "assistant", "content": "b", "tool_calls": [], "annotations": [], "refusal": null}]})");
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  EXPECT_EQ(messages.at(0).role, "system");
  EXPECT_EQ(messages.at(1).name, "ann");
  EXPECT_EQ(messages.at(2).content, "b");
  for (const auto& [member, param] :
       {std::pair(R"("tool_calls": [{}])", "messages[0].tool_calls[0].function"),
        {R"("annotations": 1)", "messages[0].annotations"},
        {R"("refusal": "no")", "messages[0].refusal"},
        {R"("name": 7)", "messages[0].name"},
        {R"("weight": 1)", "messages[0].weight"}}) {
    const std::string body =
        std::string(R"({"messages": [{"role": "assistant", "content": "x", )") + member + "}]}";
    EXPECT_EQ(refusal_of(body, TextPath::kChat).param, param) << body;
  }
}

TEST(TextRequest, NamesTheParameterThatIsWrong) {
  struct Case {
    const char* body;
    const char* param;
  };
  for (
      const auto& [body, param] : {
          Case{R"({"prompt": "x", "temperature": -1})", "temperature"},
          {R"({"prompt": "x", "temperature": 1e300})", "temperature"},
          {R"({"prompt": "x", "temperature": "hot"})", "temperature"},
          {R"({"prompt": "x", "top_p": 0})", "top_p"},
          {R"({"prompt": "x", "top_k": 1.5})", "top_k"},
          {R"({"prompt": "x", "max_tokens": -1})", "max_tokens"},
          {R"({"prompt": "x", "max_tokens": 99999999999999999999})", "max_tokens"},
          {R"({"prompt": "x", "n": 0})", "n"},
          {R"({"prompt": "x", "presence_penalty": 2.5})", "presence_penalty"},
          {R"({"prompt": "x", "frequency_penalty": -3})", "frequency_penalty"},
          {R"({"prompt": "x", "repeat_last_n": -2})", "repeat_last_n"},
          {R"({"prompt": "x", "min_tokens": 17})", "min_tokens"},
          {R"({"prompt": "x", "logprobs": 21})", "logprobs"},
          {R"({"prompt": "x", "logit_bias": []})", "logit_bias"},
          {R"({"prompt": "x", "logit_bias": {"a": 1}})", "logit_bias"},
          {R"({"prompt": "x", "logit_bias": {"-1": 1}})", "logit_bias"},
          {R"({"prompt": "x", "logit_bias": {"1": 101}})", "logit_bias"},
          {R"({"prompt": "x", "logit_bias": {"1": "2"}})", "logit_bias"},
          {R"({"prompt": "x", "logit_bias": {"1": 1, "01": 1}})", "logit_bias"},
          {R"({"prompt": ["x", "y"], "n": 65})", "n"},
          {R"({"prompt": "x", "n": 2, "best_of": 1})", "best_of"},
          {R"({"prompt": "x", "best_of": 129})", "best_of"},
          {R"({"prompt": ["x", "y"], "best_of": 65})", "best_of"},
          {R"({"prompt": "x", "best_of": 2, "stream": true})", "best_of"},
          {R"({"prompt": "x", "include_stop_str_in_output": 1})", "include_stop_str_in_output"},
          {R"({"prompt": "x", "bad_words": "word"})", "bad_words"},
          {R"({"prompt": "x", "bad_words": [""]})", "bad_words"},
          {R"({"prompt": "x", "bad_words": [7]})", "bad_words"},
          {R"({"prompt": "x", "cache_salt": ""})", "cache_salt"},
          {R"({"prompt": "x", "cache_salt": 7})", "cache_salt"},
          {R"({"prompt": "x", "return_token_ids": "yes"})", "return_token_ids"},
          {R"({"prompt": "x", "truncate_prompt_tokens": 0})", "truncate_prompt_tokens"},
          {R"({"prompt": "x", "truncate_prompt_tokens": -2})", "truncate_prompt_tokens"},
          {R"({"prompt": "x", "truncate_prompt_tokens": 1.5})", "truncate_prompt_tokens"},
          {R"({"prompt": "x", "stop": ""})", "stop"},
          {R"({"prompt": "x", "stop": ["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"]})",
           "stop"},
          {R"({"prompt": "x", "stream_options": {"include_usage": true}})", "stream_options"},
          {R"({"prompt": "x", "stream": true, "stream_options": {"other": 1}})", "stream_options.other"},
          {R"({"prompt": "x", "stream": 1})", "stream"},
          {R"({"prompt": "x", "echo": true, "logprobs": 21})", "logprobs"},
          {R"({"prompt": "x", "echo": true, "logprobs": -1})", "logprobs"},
          {R"({"prompt": "x", "prompt_logprobs": 21})", "prompt_logprobs"},
          {R"({"prompt": "x", "prompt_logprobs": -1})", "prompt_logprobs"},
          {R"({"prompt": "x", "prompt_logprobs": true})", "prompt_logprobs"},
          {R"({"prompt": "x", "prompt_logprobs": 0, "stream": true})", "prompt_logprobs"},
          {R"({"prompt": "x", "model": 5})", "model"},
          {R"({})", "prompt"},
      })
    EXPECT_EQ(refusal_of(body).param, param) << body;
}

TEST(TextRequest, TheLikeliestTokensComeWithLogProbabilities) {
  EXPECT_EQ(completion(R"({"prompt": "x", "logprobs": 3})").request.top_logprobs, 3U);
  const std::string messages = R"({"messages": [{"role": "user", "content": "x"}])";
  EXPECT_EQ(chat(messages + R"(, "logprobs": true, "top_logprobs": 20})").request.top_logprobs, 20U);
  EXPECT_EQ(refusal_of(messages + R"(, "top_logprobs": 1})", TextPath::kChat).param, "top_logprobs");
}

TEST(TextRequest, LogProbabilitiesOfThePromptComeWithEchoOrByTheirOwnName) {
  const auto of = [](const std::string& members) {
    return completion(R"({"prompt": "x", )" + members + "}").request.prompt_logprobs;
  };
  EXPECT_EQ(of(R"("echo": true)"), std::nullopt);
  EXPECT_EQ(of(R"("logprobs": 3)"), std::nullopt);
  EXPECT_EQ(of(R"("echo": true, "logprobs": 3)"), 3U);
  EXPECT_EQ(of(R"("prompt_logprobs": 0)"), 0U);
  EXPECT_EQ(of(R"("echo": true, "logprobs": 3, "prompt_logprobs": 5)"), 5U) << "as many as either asks for";
  EXPECT_EQ(of(R"("echo": true, "logprobs": 3, "stream": true)"), 3U);
  const TextRequest chat_request =
      chat(R"({"messages": [{"role": "user", "content": "x"}], "prompt_logprobs": 2})");
  EXPECT_EQ(chat_request.request.prompt_logprobs, 2U);
}

TEST(TextRequest, ResponsesHaveTheirOwnParameterNames) {
  const TextRequest request = parse_text_request(
      R"({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "instructions": "Be brief.",
          "max_output_tokens": 9, "tools": [], "store": false, "text": {"format": {"type": "json_object"}}})",
      TextPath::kResponses, kDefaults);
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content, "Hi");
  EXPECT_EQ(request.request.max_tokens, 9);
  EXPECT_TRUE(request.request.json_object);
  for (const char* name : {"messages", "max_tokens", "previous_response_id", "reasoning", "stop", "n"}) {
    const std::string body = std::string(R"({"input": "x", ")") + name + R"(": 1})";
    EXPECT_EQ(refusal_of(body, TextPath::kResponses).param, name);
  }
  EXPECT_EQ(refusal_of("{}", TextPath::kResponses).param, "input");
  EXPECT_EQ(refusal_of(R"({"input": [{"type": "computer_call"}]})", TextPath::kResponses).param,
            "input[0].type");
}

TEST(TextRequest, ReadsTheJsonFormat) {
  EXPECT_TRUE(
      completion(R"({"prompt": "x", "response_format": {"type": "json_object"}})").request.json_object);
  const std::string schema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const TextRequest request =
      completion(R"({"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"name": "n",
        "strict": true, "schema": )" +
                 schema + "}}}");
  EXPECT_EQ(request.request.json_schema, schema);  // unchanged
  const auto refused = [](const std::string& format) {
    return refusal_of(R"({"prompt": "x", "min_tokens": 2, "response_format": )" + format + "}").param;
  };
  EXPECT_EQ(refused("7"), "response_format");
  EXPECT_EQ(refused(R"({"type": "xml"})"), "response_format.type");
  EXPECT_EQ(refused(R"({"type": "json_object", "more": 1})"), "response_format.more");
  EXPECT_EQ(refused(R"({"type": "json_schema"})"), "response_format.json_schema");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"schema": 3}})"),
            "response_format.json_schema.schema");
  EXPECT_EQ(refused(R"({"type": "json_object"})"), "min_tokens");
}

TEST(TextRequest, ReadsTheFormatsOfVllmAndLlamaCpp) {
  const auto request = [](const std::string& member) {
    return completion(R"({"prompt": "x", )" + member + "}").request;
  };
  const std::string schema = R"({"properties":{"b":{},"a":{}}})";
  const std::string text = nlohmann::json(schema).dump();
  for (const std::string& member :
       {"\"guided_json\": " + schema, "\"guided_json\": " + text, "\"json_schema\": " + schema,
        "\"structured_outputs\": {\"json\": " + schema + "}",
        "\"structured_outputs\": {\"json\": " + text + "}"})
    EXPECT_EQ(request(member).json_schema, schema) << member;
  for (const char* member : {R"("guided_regex": "a+")", R"("structured_outputs": {"regex": "a+"})"})
    EXPECT_EQ(request(member).regex, "a+") << member;
  for (const char* member :
       {R"("guided_choice": ["a", "b"])", R"("structured_outputs": {"choice": ["a", "b"]})"})
    EXPECT_EQ(request(member).choice, (std::vector<std::string>{"a", "b"})) << member;
  for (const char* member : {R"("guided_grammar": "g")", R"("grammar": "g")",
                             R"("structured_outputs": {"grammar": "g", "disable_fallback": false})"})
    EXPECT_EQ(request(member).grammar, "g") << member;
  EXPECT_TRUE(request(R"("structured_outputs": {"json_object": true, "regex": null})").json_object);
  EXPECT_EQ(request(R"("grammar": "")").grammar, "");
  request(R"("guided_regex": "a", "guided_decoding_backend": "auto", "guided_whitespace_pattern": null)");
  request(R"("guided_regex": "a", "response_format": {"type": "text"})");
  const TextRequest response = parse_text_request(
      R"({"input": "x", "structured_outputs": {"choice": ["a"]}})", TextPath::kResponses, kDefaults);
  EXPECT_EQ(response.request.choice.size(), 1U);
  EXPECT_EQ(response.format_name, "structured_outputs.choice");
}

TEST(TextRequest, RefusesWrongFormatsByName) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"("guided_json": 7)", "guided_json"},
      {R"("guided_json": "")", "guided_json"},
      {R"("guided_json": [])", "guided_json"},
      {R"("json_schema": true)", "json_schema"},
      {R"("guided_regex": 7)", "guided_regex"},
      {R"("guided_regex": "")", "guided_regex"},
      {R"("guided_choice": "a")", "guided_choice"},
      {R"("guided_choice": [])", "guided_choice"},
      {R"("guided_choice": ["a", 1])", "guided_choice"},
      {R"("guided_grammar": {})", "guided_grammar"},
      {R"("guided_grammar": "")", "guided_grammar"},
      {R"("grammar": 1)", "grammar"},
      {R"("guided_decoding_backend": "outlines")", "guided_decoding_backend"},
      {R"("guided_whitespace_pattern": " ?")", "guided_whitespace_pattern"},
      {R"("structured_outputs": "json")", "structured_outputs"},
      {R"("structured_outputs": {})", "structured_outputs"},
      {R"("structured_outputs": {"json_object": false})", "structured_outputs"},
      {R"("structured_outputs": {"json_object": 1})", "structured_outputs.json_object"},
      {R"("structured_outputs": {"structural_tag": "x"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs": {"regex": "a", "whitespace_pattern": "x"})",
       "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs": {"regex": "a", "disable_any_whitespace": true})",
       "structured_outputs.disable_any_whitespace"},
      {R"("structured_outputs": {"regex": ""})", "structured_outputs.regex"},
      {R"("structured_outputs": {"choice": "a"})", "structured_outputs.choice"},
      {R"("guided_regex": "a", "min_tokens": 1)", "min_tokens"},
      {R"("structured_outputs": {"grammar": "g"}, "ignore_eos": true)", "ignore_eos"}};
  for (const auto& [members, param] : cases) {
    const ApiError error = refusal_of(std::string(R"({"prompt": "x", )") + members + "}");
    EXPECT_EQ(error.param, param) << members;
    EXPECT_EQ(error.status, 400) << members;
  }
}

TEST(TextRequest, TwoFormatsAreRefusedByBothNames) {
  const auto refused = [](const std::string& members, TextPath path = TextPath::kCompletions) {
    const char* prompt = path == TextPath::kResponses ? R"({"input": "x", )" : R"({"prompt": "x", )";
    return std::string(refusal_of(prompt + members + "}", path).what());
  };
  EXPECT_EQ(refused(R"("guided_regex": "a", "response_format": {"type": "json_object"})"),
            "guided_regex: not with response_format; set either, not both");
  EXPECT_EQ(refused(R"("guided_regex": "a", "guided_choice": ["b"])"),
            "guided_choice: not with guided_regex; set either, not both");
  EXPECT_EQ(refused(R"("grammar": "a", "structured_outputs": {"json": {}})"),
            "structured_outputs.json: not with grammar; set either, not both");
  EXPECT_EQ(refused(R"("structured_outputs": {"json": {}, "regex": "a"})"),
            "structured_outputs.regex: not with structured_outputs.json; set either, not both");
  EXPECT_EQ(refused(R"("grammar": "a", "text": {"format": {"type": "json_object"}})", TextPath::kResponses),
            "grammar: not with text.format; set either, not both");
}

TEST(TextRequest, UnsupportedMembersAreRefusedByName) {
  for (const char* name : {"tools", "tool_choice", "functions", "audio", "modalities", "suffix", "prediction",
                           "web_search_options", "messages", "max_completion_tokens", "nonsense"}) {
    const ApiError error = refusal_of(std::string(R"({"prompt": "x", ")") + name + R"(": "y"})");
    EXPECT_EQ(error.param, name);
    EXPECT_EQ(error.code, "unsupported_parameter");
    EXPECT_THAT(error.what(), HasSubstr("not supported"));
  }
  const ApiError image = refusal_of(
      R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})",
      TextPath::kChat);
  EXPECT_EQ(image.param, "messages[0].content[0].type");
  EXPECT_THAT(image.what(), HasSubstr("only text is supported"));
}

TEST(TextRequest, MembersWithoutEffectAreAccepted) {
  completion(R"({"prompt": "x", "tools": [], "suffix": null, "presence_penalty": 0, "logit_bias": {}})");
  chat(R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "text"},
    "modalities": ["text"], "store": false, "service_tier": "auto", "tool_choice": "none", "echo": false,
    "parallel_tool_calls": true, "add_generation_prompt": true, "skip_special_tokens": true,
    "add_special_tokens": false, "stream": true, "stream_options": {"include_obfuscation": false}})");
  parse_text_request(R"({"input": "x", "tool_choice": "auto", "parallel_tool_calls": false, "include": []})",
                     TextPath::kResponses, kDefaults);
  EXPECT_EQ(refusal_of(R"({"prompt": "x", "tool_choice": "required"})").param, "tool_choice");
  EXPECT_EQ(refusal_of(R"({"prompt": "x", "add_generation_prompt": true})").param, "add_generation_prompt")
      << "a prompt has none";
}

TEST(TextRequest, AnotherModelIsNotFound) {
  const ApiError error = refusal_of(R"({"prompt": "x", "model": "gpt-4"})");
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.code, "model_not_found");
}

TEST(TextRequest, ABodyIsOneJsonObject) {
  for (const char* body : {"", "[]", "7", "{", R"({"prompt": "x"} y)", "{\"prompt\": \"\xff\"}", "null",
                           R"({"prompt": "x", "prompt": "y"})", R"({"prompt": "\ud800"})"})
    EXPECT_EQ(refusal_of(body).status, 400) << body;
  EXPECT_EQ(refusal_of(std::string(100'000, '[')).code, "invalid_json");
  std::string schema = "{}";
  for (int i = 0; i < 127; ++i) schema = R"({"properties":{"a":)" + schema + "}}";
  completion(R"({"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"schema": )" +
             schema + "}}}");
}

TEST(ErrorObject, HasOpenAisMembers) {
  const auto error = nlohmann::json::parse(error_json({400, "invalid_value", "n: 0", "n"})).at("error");
  EXPECT_EQ(error.at("message"), "n: 0");
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_EQ(error.at("param"), "n");
  EXPECT_EQ(error.at("code"), "invalid_value");
  EXPECT_EQ(engine_error(ErrorKind::kUsage, "logit_bias[0]: token 9; limit: 0 to 8").param, "logit_bias");
  EXPECT_EQ(engine_error(ErrorKind::kUsage, "prompt 1: too long").param, "prompt");
  EXPECT_EQ(engine_error(ErrorKind::kUsage, "the engine has ended").param, "");
  EXPECT_STREQ(engine_error(ErrorKind::kRuntime, "/srv/model/tokenizer.json: damaged").what(),
               "tokenizer.json: damaged");
  EXPECT_TRUE(nlohmann::json::parse(error_json({500, "", "x"})).at("error").at("param").is_null());
}

}  // namespace
}  // namespace serval::server
