#include "engine/server/api/message_request.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace serval::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ModelDefaults kDefaults{"toy", {.temperature = 0.5F, .top_k = 7}};
const std::string kHi = R"("messages": [{"role": "user", "content": "Hi"}])";
const std::string kTool =
    R"({"name": "f", "description": "d", "input_schema": {"type": "object", "b": {}, "a": {}}})";

TextRequest message(const std::string& members) {
  return parse_text_request("{" + members + "}", TextPath::kMessages, kDefaults);
}

std::vector<ChatMessage> turns(const std::string& messages, const std::string& more = "") {
  const TextRequest request = message(R"("max_tokens": 5, "messages": )" + messages + more);
  return std::get<std::vector<ChatMessage>>(request.prompts.at(0));
}

ApiError refusal_of(const std::string& members) {
  try {
    message(members);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << members << " is accepted";
  return {0, "", ""};
}

TEST(MessageRequest, ReadsEveryParameter) {
  const TextRequest request =
      message(kHi + R"(, "max_tokens": 9, "model": "toy", "temperature": 1, "top_p": 0.5,
    "top_k": 3, "stop_sequences": ["a", "b"], "stream": true, "metadata": {"user_id": "ann"}, "seed": 4,
    "priority": -2, "service_tier": "auto", "system": "Be kind.")");
  const Request& asked = request.request;
  EXPECT_EQ(asked.max_tokens, 9);
  EXPECT_EQ(asked.sampling.temperature, 1);
  EXPECT_EQ(asked.sampling.top_p, 0.5F);
  EXPECT_EQ(asked.sampling.top_k, 3);
  EXPECT_EQ(asked.sampling.seed, 4U);
  EXPECT_EQ(asked.priority, -2);
  EXPECT_THAT(asked.stop, ElementsAre("a", "b"));
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.user, "ann");
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Be kind.");
  EXPECT_EQ(messages[1].content, "Hi");
}

TEST(MessageRequest, MaxTokensAreRequired) {
  EXPECT_EQ(refusal_of(kHi).code, "missing_parameter");
  EXPECT_EQ(refusal_of(R"("max_tokens": 5)").param, "messages");
}

TEST(MessageRequest, ToolUseAndItsResultBecomeMessagesOfTheirRoles) {
  const auto messages = turns(R"([{"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"},
      {"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": 2}},
      {"type": "tool_use", "id": "c2", "name": "g", "input": {}, "caller": {"type": "direct"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
      {"type": "tool_result", "tool_use_id": "c2", "is_error": true, "content": [{"type": "text", "text": "no"}]},
      {"type": "text", "text": "Well?"}]}])");
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content, "Let me see.");
  EXPECT_EQ(messages[1].reasoning_content, "Hm.");
  ASSERT_EQ(messages[1].tool_calls.size(), 2U);
  EXPECT_EQ(messages[1].tool_calls[0].name, "f");
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"b":1,"a":2})") << "in the order of the body";
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[2].tool_call_id, "c1");
  EXPECT_EQ(messages[2].content, "rain");
  EXPECT_EQ(messages[3].content, "no");
  EXPECT_EQ(messages[4].role, "user");
  EXPECT_EQ(messages[4].content, "Well?");
}

TEST(MessageRequest, MessagesOfOneRoleBecomeOne) {
  const auto messages = turns(R"([{"role": "user", "content": "a"},
    {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}])");
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].content, "a\n\nbc");
}

TEST(MessageRequest, TheAnswerContinuesTheAssistantsLastMessage) {
  const TextRequest begun = message(
      R"("max_tokens": 5, "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])");
  EXPECT_TRUE(begun.request.chat.continue_final_message);
  EXPECT_FALSE(begun.request.chat.add_generation_prompt);
  const TextRequest asked = message(R"("max_tokens": 5, )" + kHi);
  EXPECT_FALSE(asked.request.chat.continue_final_message);
  EXPECT_TRUE(asked.request.chat.add_generation_prompt);
}

TEST(MessageRequest, ToolsAreFunctionsOfTheChatTemplate) {
  const std::string members = R"("max_tokens": 5, "tools": [)" + kTool + "], " + kHi;
  const RequestTools tools = message(members).tools;
  ASSERT_EQ(tools.functions.size(), 1U);
  EXPECT_EQ(tools.functions[0].name, "f");
  EXPECT_EQ(tools.functions[0].parameters, R"({"type":"object","b":{},"a":{}})");
  EXPECT_EQ(tools.definitions, R"([{"type":"function","function":{"name":"f","description":"d",)"
                               R"("parameters":{"type":"object","b":{},"a":{}}}}])");
  EXPECT_EQ(tools.choice, ToolChoice::kAuto);
  EXPECT_TRUE(tools.parallel);
}

TEST(MessageRequest, ReadsTheChoiceOfTools) {
  const auto choice = [](const std::string& value) {
    return message(R"("max_tokens": 5, "tools": [)" + kTool + "], " + kHi + R"(, "tool_choice": )" + value)
        .tools;
  };
  EXPECT_EQ(choice(R"({"type": "auto"})").choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(R"({"type": "none"})").choice, ToolChoice::kNone);
  const RequestTools any = choice(R"({"type": "any", "disable_parallel_tool_use": true})");
  EXPECT_EQ(any.choice, ToolChoice::kRequired);
  EXPECT_EQ(any.chosen, "");
  EXPECT_FALSE(any.parallel);
  const RequestTools named = choice(R"({"type": "tool", "name": "f"})");
  EXPECT_EQ(named.choice, ToolChoice::kRequired);
  EXPECT_EQ(named.chosen, "f");
}

TEST(MessageRequest, ThinkingIsAVariableOfTheChatTemplateAndALimit) {
  const auto asked = [](const std::string& thinking) {
    return message(R"("max_tokens": 50, )" + kHi + thinking).request;
  };
  EXPECT_EQ(asked("").chat.variables, R"({"enable_thinking":false})");
  EXPECT_EQ(asked("").max_reasoning_tokens, -1);
  const Request enabled = asked(R"(, "thinking": {"type": "enabled", "budget_tokens": 49})");
  EXPECT_EQ(enabled.chat.variables, R"({"enable_thinking":true})");
  EXPECT_EQ(enabled.max_reasoning_tokens, 49);
  const Request adaptive = asked(R"(, "thinking": {"type": "adaptive", "display": "summarized"})");
  EXPECT_EQ(adaptive.chat.variables, R"({"enable_thinking":true})");
  EXPECT_EQ(adaptive.max_reasoning_tokens, -1);
}

TEST(MessageRequest, ReadsTheFormatOfTheText) {
  const std::string schema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const TextRequest request =
      message(R"("max_tokens": 5, )" + kHi +
              R"(, "output_config": {"format": {"type": "json_schema", "schema": )" + schema + "}}");
  EXPECT_EQ(request.request.json_schema, schema);
}

TEST(MessageRequest, NamesTheParameterThatIsWrong) {
  struct Case {
    std::string member, param;
  };
  const std::vector<Case> cases = {
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": 5, "temperature": 1.1)", "temperature"},
      {R"("max_tokens": 5, "top_k": -1)", "top_k"},
      {R"("max_tokens": 5, "stop_sequences": "x")", "stop_sequences"},
      {R"("max_tokens": 5, "stop_sequences": [""])", "stop_sequences"},
      {R"("max_tokens": 5, "metadata": 7)", "metadata"},
      {R"("max_tokens": 5, "metadata": {"user": "x"})", "metadata.user"},
      {R"("max_tokens": 5, "system": 7)", "system"},
      {R"("max_tokens": 5, "system": [{"type": "image"}])", "system[0].type"},
      {R"("max_tokens": 5, "stop": "x")", "stop"},
      {R"("max_tokens": 5, "stream_options": {})", "stream_options"},
      {R"("max_tokens": 5, "tools": {})", "tools"},
      {R"("max_tokens": 5, "tools": [7])", "tools[0]"},
      {R"("max_tokens": 5, "tools": [{"name": "f"}])", "tools[0].input_schema"},
      {R"("max_tokens": 5, "tools": [{"type": "bash_20250124", "name": "bash"}])", "tools[0].type"},
      {R"("max_tokens": 5, "tools": [)" + kTool + ", " + kTool + "]", "tools[1].name"},
      {R"("max_tokens": 5, "tool_choice": {"type": "any"})", "tool_choice"},
      {R"("max_tokens": 5, "tools": [)" + kTool + R"(], "tool_choice": "any")", "tool_choice"},
      {R"("max_tokens": 5, "tools": [)" + kTool + R"(], "tool_choice": {"type": "tool"})",
       "tool_choice.name"},
      {R"("max_tokens": 5, "thinking": {"type": "enabled"})", "thinking.budget_tokens"},
      {R"("max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 5})", "thinking.budget_tokens"},
      {R"("max_tokens": 5, "thinking": true)", "thinking"},
      {R"("max_tokens": 5, "output_config": {"effort": "low"})", "output_config.effort"},
      {R"("max_tokens": 5, "output_config": {"format": {"type": "text"}})", "output_config.format.type"},
      {R"("max_tokens": 5, "cache_control": {"type": "x"})", "cache_control.type"},
      {R"("max_tokens": 5, "service_tier": "flex")", "service_tier"},
  };
  for (const auto& [member, param] : cases) EXPECT_EQ(refusal_of(kHi + ", " + member).param, param) << member;
}

TEST(MessageRequest, NamesTheBlockThatIsWrong) {
  const std::string use = R"({"type": "tool_use", "id": "c1", "name": "f", "input": {}})";
  const auto refused = [](const std::string& messages) {
    return refusal_of(R"("max_tokens": 5, "messages": )" + messages).param;
  };
  const auto user = [](const std::string& blocks) {
    return R"([{"role": "user", "content": [)" + blocks + "]}]";
  };
  const auto after = [](const std::string& blocks, const std::string& more) {
    return R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": [)" + blocks + "]}" + more +
           "]";
  };
  EXPECT_EQ(refused("[]"), "messages");
  EXPECT_EQ(refused("7"), "messages");
  EXPECT_EQ(refused("[7]"), "messages[0]");
  EXPECT_EQ(refused(R"([{"role": "system", "content": "x"}])"), "messages[0].role");
  EXPECT_EQ(refused(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(refused(user("")), "messages[0].content");
  EXPECT_EQ(refused(user("7")), "messages[0].content[0]");
  EXPECT_EQ(refused(user(R"({"type": "image"})")), "messages[0].content[0].type");
  EXPECT_EQ(refused(user(use)), "messages[0].content[0].type") << "only the assistant uses tools";
  EXPECT_EQ(refused(user(R"({"type": "text", "text": "x", "weight": 1})")), "messages[0].content[0].weight");
  EXPECT_EQ(refused(user(R"({"type": "tool_result", "tool_use_id": "c1"})")),
            "messages[0].content[0].tool_use_id");
  EXPECT_EQ(refused(after(use + "," + use, "")), "messages[1].content[1].id");
  EXPECT_EQ(refused(after(use, "")), "messages") << "its result is missing";
  EXPECT_EQ(refused(after(R"({"type": "redacted_thinking", "data": "x"})", "")),
            "messages[1].content[0].type");
  const std::string image = R"(, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
    "content": [{"type": "image"}]}]})";
  EXPECT_EQ(refused(after(use, image)), "messages[2].content[0].content[0].type");
}

TEST(CountRequest, HasTheConversationAndNothingElse) {
  const TextRequest request = parse_count_request("{" + kHi + R"(, "tools": [)" + kTool + "]}", kDefaults);
  EXPECT_TRUE(request.counts_only);
  EXPECT_EQ(request.tools.functions.size(), 1U);
  for (const char* name : {"max_tokens", "temperature", "stream"}) {
    try {
      parse_count_request("{" + kHi + ", \"" + name + "\": 1}", kDefaults);
      ADD_FAILURE() << name;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.param, name);
      EXPECT_THAT(error.what(), HasSubstr("not supported"));
    }
  }
  EXPECT_EQ(count_answer(7), R"({"input_tokens":7})");
}

}  // namespace
}  // namespace serval::server
