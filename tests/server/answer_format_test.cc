#include "engine/server/api/answer_format.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace serval::server {
namespace {

using nlohmann::json;

const AnswerFormat kCompletion(TextPath::kCompletions, {"cmpl-1", "toy", 7});
const AnswerFormat kChat(TextPath::kChat, {"chatcmpl-1", "toy", 7});
const Usage kUsage{.prompt_tokens = 5, .cached_tokens = 2, .completion_tokens = 3};

json data_of(const std::string& event) {
  EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << event;
  EXPECT_EQ(event.find('\n'), event.size() - 2) << "an event's data is one line";
  return json::parse(event.substr(6));
}

TEST(AnswerFormat, ACompletionHasItsChoicesAndItsUsage) {
  const json answer = json::parse(kCompletion.complete(
      {{.text = "a", .finish_reason = "stop"}, {.text = "b", .finish_reason = "length"}}, kUsage));
  EXPECT_EQ(answer.at("id"), "cmpl-1");
  EXPECT_EQ(answer.at("object"), "text_completion");
  EXPECT_EQ(answer.at("created"), 7);
  EXPECT_EQ(answer.at("choices").at(1).at("index"), 1);
  EXPECT_EQ(answer.at("choices").at(1).at("text"), "b");
  EXPECT_EQ(answer.at("choices").at(1).at("finish_reason"), "length");
  EXPECT_EQ(answer.at("usage").at("total_tokens"), 8);
  EXPECT_EQ(answer.at("usage").at("prompt_tokens_details").at("cached_tokens"), 2);
}

TEST(AnswerFormat, AChatHasAMessage) {
  const json answer = json::parse(kChat.complete({{.text = "Hi", .finish_reason = "stop"}}, kUsage));
  EXPECT_EQ(answer.at("object"), "chat.completion");
  EXPECT_EQ(answer.at("choices").at(0).at("message").at("role"), "assistant");
  EXPECT_EQ(answer.at("choices").at(0).at("message").at("content"), "Hi");
}

TEST(AnswerFormat, AChatHasReasoningAndCalls) {
  const Piece whole{
      .reasoning = "Hm",
      .calls = {{.index = 0, .id = "call_1", .name = "f", .arguments = "{\"a\": 1}", .ends = true}},
      .finish_reason = "tool_calls"};
  const Usage usage{.completion_tokens = 9, .reasoning_tokens = 4};
  const json answer = json::parse(kChat.complete({whole}, usage));
  const json message = answer.at("choices").at(0).at("message");
  EXPECT_EQ(answer.at("choices").at(0).at("finish_reason"), "tool_calls");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("reasoning_content"), "Hm");
  EXPECT_EQ(message.at("tool_calls"), json::parse(R"([{"id": "call_1", "type": "function",
                             "function": {"name": "f", "arguments": "{\"a\": 1}"}}])"));
  EXPECT_EQ(answer.at("usage").at("completion_tokens_details").at("reasoning_tokens"), 4);
  const json plain = json::parse(kChat.complete({{.text = "Hi"}}, kUsage)).at("choices").at(0).at("message");
  EXPECT_FALSE(plain.contains("tool_calls") || plain.contains("reasoning_content"));
}

TEST(AnswerFormat, AStreamHasANameThenArguments) {
  const auto delta = [](const Piece& piece) {
    return data_of(kChat.event(0, piece, false)).at("choices").at(0).at("delta");
  };
  EXPECT_EQ(delta({.reasoning = "Hm"}), json::parse(R"({"reasoning_content": "Hm"})"));
  EXPECT_EQ(delta({.calls = {{.index = 1, .id = "call_1", .name = "f"}}}),
            json::parse(R"({"tool_calls": [{"index": 1, "id": "call_1", "type": "function",
                                            "function": {"name": "f", "arguments": ""}}]})"));
  EXPECT_EQ(delta({.calls = {{.index = 1, .arguments = "{"}}}),
            json::parse(R"({"tool_calls": [{"index": 1, "function": {"arguments": "{"}}]})"));
  EXPECT_EQ(kChat.event(0, {.calls = {{.index = 1, .ends = true}}}, false), "") << "chats have no such event";
}

TEST(AnswerFormat, AStreamIsOneJsonALine) {
  const json role = data_of(kChat.first_event(0, true)).at("choices").at(0).at("delta");
  EXPECT_EQ(role.at("role"), "assistant");
  const json token = data_of(kChat.event(2, {.text = "line\nbreak"}, true));
  EXPECT_EQ(token.at("object"), "chat.completion.chunk");
  EXPECT_EQ(token.at("choices").at(0).at("index"), 2);
  EXPECT_EQ(token.at("choices").at(0).at("delta").at("content"), "line\nbreak");
  EXPECT_TRUE(token.at("choices").at(0).at("finish_reason").is_null());
  EXPECT_TRUE(token.at("usage").is_null());
  const json end = data_of(kChat.event(2, {.finish_reason = "stop"}, true));
  EXPECT_EQ(end.at("choices").at(0).at("delta"), json::object());
  EXPECT_EQ(data_of(kChat.usage_event(kUsage)).at("choices"), json::array());
  EXPECT_EQ(kCompletion.first_event(0, true), "");
  EXPECT_FALSE(data_of(kCompletion.event(0, {.text = "x"}, false)).contains("usage"));
}

TEST(AnswerFormat, LogProbabilitiesAreOfTokens) {
  const Piece piece{.text = "a日",
                    .with_logprobs = true,
                    .logprobs = {{{1, "a", true, -0.5F}, 0},
                                 {{2, "\xE6\x97", true, -1}, 1},
                                 {{3, "\xA5", true, -1}, 1},
                                 {{4, "<|end|>", false, -1}, 2}}};
  const json completion = data_of(kCompletion.event(0, piece, false)).at("choices").at(0).at("logprobs");
  EXPECT_EQ(completion.at("tokens").at(0), "a");
  EXPECT_EQ(completion.at("token_logprobs").at(1), -1);
  EXPECT_EQ(completion.at("tokens").at(1), "bytes:\\xe6\\x97") << "as OpenAI writes a part of a character";
  EXPECT_EQ(completion.at("text_offset"), json({0, 1, 1, 2}));
  const json chat = data_of(kChat.event(0, piece, false)).at("choices").at(0).at("logprobs").at("content");
  EXPECT_EQ(chat.at(0).at("bytes"), json({97}));
  EXPECT_EQ(chat.at(1).at("bytes"), json({0xE6, 0x97})) << "clients join them";
  EXPECT_EQ(chat.at(2).at("bytes"), json({0xA5}));
  EXPECT_EQ(chat.at(3).at("token"), "<|end|>");
  EXPECT_TRUE(chat.at(3).at("bytes").is_null()) << "it is no part of the text";
  EXPECT_EQ(chat.at(0).at("logprob"), -0.5);
}

TEST(AnswerFormat, TheFirstTokenOfAPromptHasNoLogProbability) {
  Piece piece{.text = "ab", .with_logprobs = true, .with_likeliest = true};
  piece.logprobs.push_back({.token = {1, "a"}, .is_scored = false});
  piece.logprobs.push_back({.token = {2, "b", true, -1}, .text_offset = 1});
  piece.logprobs.back().likeliest = {{2, "b", true, -1}};
  const json logprobs = data_of(kCompletion.event(0, piece, false)).at("choices").at(0).at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), json({"a", "b"}));
  EXPECT_EQ(logprobs.at("token_logprobs"), json({nullptr, -1}));
  EXPECT_EQ(logprobs.at("top_logprobs"), json({nullptr, {{"b", -1}}}));
}

// As vLLM writes them: in a completion's choices, and beside the choices of a chat.
TEST(AnswerFormat, PromptLogProbabilitiesAreByTokenId) {
  Piece piece{.with_prompt = true, .finish_reason = "length"};
  piece.prompt.push_back({.token = {1, "a"}, .is_scored = false});
  piece.prompt.push_back({.token = {2, "b", true, -3}});
  piece.prompt.back().likeliest = {{7, "\xA5", true, -1}, {9, "d", true, -2}};
  piece.prompt.push_back({.token = {7, "c", true, -1}});
  piece.prompt.back().likeliest = {{7, "c", true, -1}};
  const json found =
      json::parse(kCompletion.complete({piece}, kUsage)).at("choices").at(0).at("prompt_logprobs");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found.at(0).is_null());
  EXPECT_EQ(found.at(1).at("2"), json({{"logprob", -3}, {"rank", nullptr}, {"decoded_token", "b"}}))
      << "its rank is not known";
  EXPECT_EQ(found.at(1).at("7"), json({{"logprob", -1}, {"rank", 1}, {"decoded_token", "\uFFFD"}}));
  EXPECT_EQ(found.at(1).at("9").at("rank"), 2);
  EXPECT_EQ(found.at(2), json({{"7", {{"logprob", -1}, {"rank", 1}, {"decoded_token", "c"}}}}));
  EXPECT_EQ(json::parse(kChat.complete({piece}, kUsage)).at("prompt_logprobs"), found);
  EXPECT_EQ(kCompletion.complete({{.text = "x"}}, kUsage).find("prompt_logprobs"), std::string::npos);
}

TEST(AnswerFormat, NoTwoOfTheLikeliestTokensHaveOneName) {
  const std::vector<LikelyToken> top = {
      {65, "A", true, -1}, {7, "A", true, -2}, {8, "\xA5", true, -3}, {9, "\xA6", true, -4}};
  const auto likeliest = [&](const LikelyToken& drawn) {
    const Piece piece{.with_logprobs = true, .with_likeliest = true, .logprobs = {{drawn, 0, top}}};
    return data_of(kCompletion.event(0, piece, false))
        .at("choices")
        .at(0)
        .at("logprobs")
        .at("top_logprobs")
        .at(0);
  };
  EXPECT_EQ(likeliest(top[0]),
            json({{"A", -1}, {"token_id:7", -2}, {"bytes:\\xa5", -3}, {"bytes:\\xa6", -4}}));
  EXPECT_EQ(likeliest(top[1]).at("A"), -2) << "the token that was drawn is found by its own name";
  EXPECT_EQ(likeliest(top[1]).at("token_id:65"), -1);
  EXPECT_EQ(likeliest({10, "x", true, -9}).at("x"), -9) << "listed although other tokens are likelier";
}

}  // namespace
}  // namespace serval::server
