#include "engine/server/api/tools.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/server/api/api_error.h"

namespace serval::server {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const ModelDefaults kDefaults{"toy", {}};

// A body of a chat with these members.
std::string chat_with(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "x"}], )" + members + "}";
}
TextRequest chat(const std::string& members) {
  return parse_text_request(chat_with(members), TextPath::kChat, kDefaults);
}
TextRequest respond(const std::string& members) {
  return parse_text_request(R"({"input": "x", )" + members + "}", TextPath::kResponses, kDefaults);
}

std::string refused_param(const std::string& body, TextPath path) {
  try {
    parse_text_request(body, path, kDefaults);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400) << body;
    return error.param;
  }
  return "accepted";
}
std::string refused(const std::string& members) {
  return refused_param(chat_with(members), TextPath::kChat);
}

constexpr const char* kTwo = R"("tools": [
  {"type": "function", "function": {"name": "add", "description": "Adds.", "strict": true,
   "parameters": {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "now"}}])";

TEST(Tools, AreFunctionsWithSchemas) {
  const RequestTools tools = chat(kTwo).tools;
  ASSERT_EQ(tools.functions.size(), 2u);
  EXPECT_EQ(tools.functions[0].name, "add");
  EXPECT_TRUE(tools.functions[0].strict);
  EXPECT_EQ(tools.functions[0].parameters,
            R"({"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"integer"}}})")
      << "in the order of the body";
  EXPECT_EQ(tools.functions[1].parameters, "");
  EXPECT_FALSE(tools.functions[1].strict);
  EXPECT_EQ(tools.choice, ToolChoice::kAuto);
  EXPECT_TRUE(tools.parallel);
  EXPECT_THAT(tools.definitions, HasSubstr(R"([{"type":"function","function":{"name":"add","description")"));
  EXPECT_TRUE(chat(R"("tools": [])").tools.functions.empty());
  EXPECT_EQ(chat(R"("tools": [])").tools.choice, ToolChoice::kNone);
}

TEST(Tools, OfResponsesAreFlat) {
  const RequestTools tools =
      respond(R"("tools": [{"type": "function", "name": "f", "strict": true, "description": null,
        "parameters": {"properties": {}}}], "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": false)")
          .tools;
  EXPECT_EQ(tools.definitions,
            R"([{"type":"function","function":{"name":"f","parameters":{"properties":{}}}}])");
  EXPECT_EQ(tools.choice, ToolChoice::kRequired);
  EXPECT_EQ(tools.chosen, "f");
  EXPECT_FALSE(tools.parallel);
}

TEST(Tools, TheChoiceIsOneOfFour) {
  const auto choice = [](const std::string& text) {
    return chat(kTwo + std::string(R"(, "tool_choice": )") + text).tools;
  };
  EXPECT_EQ(choice(R"("none")").choice, ToolChoice::kNone);
  EXPECT_EQ(choice(R"("auto")").choice, ToolChoice::kAuto);
  EXPECT_EQ(choice(R"("required")").choice, ToolChoice::kRequired);
  EXPECT_EQ(choice(R"("required")").chosen, "");
  EXPECT_EQ(choice(R"({"type": "function", "function": {"name": "now"}})").chosen, "now");
  EXPECT_EQ(choice("null").choice, ToolChoice::kAuto);
}

TEST(Tools, NamesWhatIsWrong) {
  const auto tool = [](const std::string& function) {
    return refused(R"("tools": [{"type": "function", "function": )" + function + "}]");
  };
  EXPECT_EQ(refused(R"("tools": {})"), "tools");
  EXPECT_EQ(refused(R"("tools": [7])"), "tools[0]");
  EXPECT_EQ(refused(R"("tools": [{}])"), "tools[0].type");
  EXPECT_EQ(refused(R"("tools": [{"type": "web_search"}])"), "tools[0].type");
  EXPECT_EQ(refused(R"("tools": [{"type": "function"}])"), "tools[0].function");
  EXPECT_EQ(refused(R"("tools": [{"type": "function", "function": {"name": "f"}, "x": 1}])"), "tools[0].x");
  EXPECT_EQ(tool("{}"), "tools[0].function.name");
  EXPECT_EQ(tool(R"({"name": 7})"), "tools[0].function.name");
  EXPECT_EQ(tool(R"({"name": "a b"})"), "tools[0].function.name");
  EXPECT_EQ(tool(R"({"name": ""})"), "tools[0].function.name");
  EXPECT_EQ(tool(R"({"name": ")" + std::string(65, 'a') + "\"}"), "tools[0].function.name");
  EXPECT_EQ(tool(R"({"name": "f", "description": 1})"), "tools[0].function.description");
  EXPECT_EQ(tool(R"({"name": "f", "strict": "yes"})"), "tools[0].function.strict");
  EXPECT_EQ(tool(R"({"name": "f", "parameters": []})"), "tools[0].function.parameters");
  EXPECT_EQ(tool(R"({"name": "f", "parameters": {"type": "string"}})"), "tools[0].function.parameters.type");
  EXPECT_EQ(tool(R"({"name": "f", "returns": {}})"), "tools[0].function.returns");
  EXPECT_EQ(refused(R"("tools": [{"type": "function", "function": {"name": "f"}},
                               {"type": "function", "function": {"name": "f"}}])"),
            "tools[1]");
  std::string many;
  for (int i = 0; i < 129; ++i)
    many += (i > 0 ? "," : "") + std::string(R"({"type": "function", "function": {"name": "f)") +
            std::to_string(i) + "\"}}";
  EXPECT_EQ(refused("\"tools\": [" + many + "]"), "tools");
}

TEST(Tools, NamesWhatIsWrongWithTheChoice) {
  const auto choice = [](const std::string& text) {
    return refused(kTwo + std::string(R"(, "tool_choice": )") + text);
  };
  EXPECT_EQ(choice(R"("any")"), "tool_choice");
  EXPECT_EQ(choice("7"), "tool_choice");
  EXPECT_EQ(choice(R"({"type": "allowed_tools"})"), "tool_choice.type");
  EXPECT_EQ(choice(R"({"type": "function"})"), "tool_choice.function");
  EXPECT_EQ(choice(R"({"type": "function", "function": {}})"), "tool_choice.function.name");
  EXPECT_EQ(choice(R"({"type": "function", "function": {"name": "other"}})"), "tool_choice");
  EXPECT_EQ(refused(R"("tool_choice": "required")"), "tool_choice") << "needs tools";
  EXPECT_EQ(refused(R"("tool_choice": {"type": "function", "function": {"name": "f"}})"), "tool_choice");
  EXPECT_EQ(refused(R"("tool_choice": "auto")"), "accepted");
  EXPECT_EQ(refused(R"("parallel_tool_calls": 1)"), "parallel_tool_calls");
  EXPECT_EQ(refused(kTwo + std::string(R"(, "min_tokens": 2)")), "min_tokens");
  EXPECT_EQ(refused(kTwo + std::string(R"(, "ignore_eos": true)")), "ignore_eos");
}

std::string refused_message(const std::string& message) {
  return refused_param(R"({"messages": [)" + message + "]}", TextPath::kChat);
}

TEST(Tools, CallsAndResultsArePartOfAConversation) {
  const TextRequest request = parse_text_request(R"({"messages": [{"role": "user", "content": "x"},
    {"role": "assistant", "content": null, "reasoning_content": "Hm", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 1, \"a\": 2}"}},
      {"id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"},
    {"role": "tool", "tool_call_id": "c2", "name": "now", "content": [{"type": "text", "text": "noon"}]}]})",
                                                 TextPath::kChat, kDefaults);
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1].reasoning_content, "Hm");
  ASSERT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[1].tool_calls[0].id, "c1");
  EXPECT_EQ(messages[1].tool_calls[0].arguments, R"({"b": 1, "a": 2})");
  EXPECT_EQ(messages[1].tool_calls[1].arguments, "{}");
  EXPECT_EQ(messages[2].tool_call_id, "c1");
  EXPECT_EQ(messages[3].content, "noon");
  EXPECT_EQ(messages[3].name, "now");
}

TEST(Tools, NamesWhatIsWrongInAConversation) {
  const auto call = [](const std::string& members) {
    return refused_message(R"({"role": "assistant", "tool_calls": [{)" + members + "}]}");
  };
  const std::string at = "messages[0].tool_calls[0].";
  EXPECT_EQ(refused_message(R"({"role": "tool", "content": "3"})"), "messages[0].tool_call_id");
  EXPECT_EQ(refused_message(R"({"role": "tool", "content": "3", "tool_call_id": 3})"),
            "messages[0].tool_call_id");
  EXPECT_EQ(refused_message(R"({"role": "tool", "tool_call_id": "c"})"), "messages[0].content");
  EXPECT_EQ(refused_message(R"({"role": "user", "content": "3", "tool_call_id": "c"})"),
            "messages[0].tool_call_id");
  EXPECT_EQ(refused_message(R"({"role": "user", "content": "3", "reasoning_content": "c"})"),
            "messages[0].reasoning_content");
  EXPECT_EQ(refused_message(R"({"role": "user", "content": "x", "tool_calls": [{}]})"),
            "messages[0].tool_calls");
  EXPECT_EQ(refused_message(R"({"role": "assistant"})"), "messages[0].content");
  EXPECT_EQ(refused_message(R"({"role": "assistant", "tool_calls": {}})"), "messages[0].tool_calls");
  EXPECT_EQ(call(R"("id": "c", "type": "custom")"), at + "type");
  EXPECT_EQ(call(R"("id": "c", "type": "function")"), at + "function");
  EXPECT_EQ(call(R"("id": "c", "function": {"arguments": "{}"})"), at + "function.name");
  EXPECT_EQ(call(R"("id": "c", "function": {"name": "a b", "arguments": "{}"})"), at + "function.name");
  EXPECT_EQ(call(R"("id": "c", "function": {"name": "f"})"), at + "function.arguments");
  EXPECT_EQ(call(R"("id": "c", "function": {"name": "f", "arguments": {}})"), at + "function.arguments");
  EXPECT_EQ(call(R"("id": "c", "function": {"name": "f", "arguments": "[]"})"), at + "function.arguments");
  EXPECT_EQ(call(R"("id": "c", "function": {"name": "f", "arguments": "{"})"), at + "function.arguments");
  EXPECT_EQ(call(R"("function": {"name": "f", "arguments": "{}"})"), at + "id");
}

TEST(Tools, ItemsOfAResponseBecomeMessages) {
  const TextRequest request = parse_text_request(R"({"input": [{"role": "user", "content": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
    {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "So"}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "3"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noon"}]},
    {"type": "function_call", "call_id": "c3", "name": "now", "arguments": "{}"}]})",
                                                 TextPath::kResponses, kDefaults);
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompts.at(0));
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[1].content, "So");
  EXPECT_EQ(messages[1].reasoning_content, "Hm");
  EXPECT_EQ(messages[1].tool_calls.size(), 2u);
  EXPECT_EQ(messages[2].role, "tool");
  EXPECT_EQ(messages[3].content, "noon");
  EXPECT_EQ(messages[4].role, "assistant");
  EXPECT_EQ(messages[4].tool_calls.at(0).id, "c3");
}

TEST(Tools, NamesWhatIsWrongInItems) {
  const auto refused_item = [](const std::string& item) {
    return refused_param(R"({"input": [)" + item + "]}", TextPath::kResponses);
  };
  EXPECT_EQ(refused_item(R"({"type": "web_search_call"})"), "input[0].type");
  EXPECT_EQ(refused_item(R"({"type": "function_call", "call_id": "c"})"), "input[0].name");
  EXPECT_EQ(refused_item(R"({"type": "function_call", "name": "f", "arguments": "{}"})"), "input[0].call_id");
  EXPECT_EQ(refused_item(R"({"type": "function_call", "call_id": "c", "name": "f"})"), "input[0].arguments");
  EXPECT_EQ(refused_item(R"({"type": "function_call_output", "output": "3"})"), "input[0].call_id");
  EXPECT_EQ(refused_item(R"({"type": "function_call_output", "call_id": "c"})"), "input[0].output");
  EXPECT_EQ(refused_item(R"({"role": "tool", "content": "3"})"), "input[0].role");
  EXPECT_EQ(refused_item(R"({"type": "reasoning", "summary": []})"), "input") << "no message follows";
}

TEST(ChatOptions, AreVariablesAndTheEndOfThePrompt) {
  const ChatOptions options =
      chat(R"("chat_template_kwargs": {"z": 1, "enable_thinking": false}, "max_reasoning_tokens": 7)")
          .request.chat;
  EXPECT_EQ(options.variables, R"({"z":1,"enable_thinking":false})");
  EXPECT_TRUE(options.add_generation_prompt);
  EXPECT_EQ(chat(R"("max_reasoning_tokens": 7)").request.max_reasoning_tokens, 7);
  EXPECT_FALSE(chat(R"("add_generation_prompt": false)").request.chat.add_generation_prompt);
  const ChatOptions continues = chat(R"("continue_final_message": true)").request.chat;
  EXPECT_TRUE(continues.continue_final_message);
  EXPECT_FALSE(continues.add_generation_prompt);
  EXPECT_EQ(refused(R"("continue_final_message": true, "add_generation_prompt": true)"),
            "continue_final_message");
  EXPECT_EQ(refused(R"("chat_template_kwargs": [])"), "chat_template_kwargs");
  EXPECT_EQ(refused(R"("chat_template_kwargs": {"messages": []})"), "chat_template_kwargs.messages");
  EXPECT_EQ(refused(R"("max_reasoning_tokens": -1)"), "max_reasoning_tokens");
  EXPECT_EQ(refused(R"("max_reasoning_tokens": 5, "ignore_eos": true)"), "ignore_eos");
}

}  // namespace
}  // namespace serval::server
