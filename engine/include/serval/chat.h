// Conversations: messages, the tools that a model may call, and how its answer is written.
//
// Texts are UTF-8; other bytes become U+FFFD when a chat template writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace serval {

// A call of a tool in an earlier answer of the assistant.
struct ToolCall {
  std::string id = {};
  std::string name;
  std::string arguments = "{}";  // a JSON object
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::string content = {};
  std::string name = {};  // of the speaker or the tool, for chat templates that write it; empty: none
  std::vector<ToolCall> tool_calls = {};  // of the assistant
  std::string tool_call_id = {};          // of a tool's result: the call that it answers
  std::string reasoning_content = {};     // of the assistant; empty: none
};

// How a conversation becomes a prompt.
struct ChatOptions {
  // The tools as the chat template gets them: a JSON array such as [{"type": "function", "function": {…}}],
  // whose members keep their order. Empty: none.
  std::string tools = {};
  // Further variables of the chat template: a JSON object, such as {"enable_thinking": false}. Empty: none.
  std::string variables = {};
  bool add_generation_prompt = true;    // ends with the start of the assistant's answer
  bool continue_final_message = false;  // ends inside the last message; not with add_generation_prompt
};

// How a family of models writes calls of tools, named as vLLM names its parsers.
enum class ToolFormat : uint8_t {
  kNone,
  kLlama3Json,  // {"name": …, "parameters": …}; …   also after <|python_tag|>
  kHermes,      // <tool_call>{"name": …, "arguments": …}</tool_call> <tool_call>…
  kMistral,     // [TOOL_CALLS] [{"name": …, "arguments": …}, …]
  kSmolLm2,     // <tool_call>[{"name": …, "arguments": …}, …]</tool_call>
};

// Whether an answer begins with reasoning, which <think> opens and </think> closes.
enum class Reasoning : uint8_t {
  kNone,     // it does not
  kMayOpen,  // it may begin with <think>
  kOpen,     // the prompt has opened the reasoning
};

// A tool that the model may call.
struct ToolFunction {
  std::string name;
  // A JSON schema of its arguments, an object; empty: it has none, {}.
  std::string parameters = {};
  // false: if the schema is not supported, any JSON object may be the arguments of a call that the model
  // opens by itself.
  bool strict = false;
};

inline constexpr size_t kMaxFunctions = 128;

enum class ToolChoice : uint8_t {
  kNone,      // the text is not searched for calls
  kAuto,      // text or calls; once the model opens a call, its format and arguments are constrained
  kRequired,  // at least one call and no text before it
};

// Restricts an answer to text and valid calls of tools.
struct ToolRules {
  ToolFormat format = ToolFormat::kNone;
  ToolChoice choice = ToolChoice::kNone;
  std::vector<ToolFunction> functions = {};  // up to kMaxFunctions, with different names
  bool parallel = true;                      // more than one call may follow
};

}  // namespace serval
