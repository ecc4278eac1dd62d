// Formats of reasoning and of calls of tools: their names, their markers, and which of them a chat template
// uses.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/include/serval/chat.h"

namespace serval {

inline constexpr std::string_view kThinkBegin = "<think>", kThinkEnd = "</think>";
inline constexpr std::string_view kToolCallBegin = "<tool_call>", kToolCallEnd = "</tool_call>";
inline constexpr std::string_view kToolCallsBegin = "[TOOL_CALLS]";
inline constexpr std::string_view kPythonTag = "<|python_tag|>";

// Every marker of every format.
inline constexpr std::string_view kMarkers[] = {kThinkBegin,  kThinkEnd,       kToolCallBegin,
                                                kToolCallEnd, kToolCallsBegin, kPythonTag};

// "none", "llama3_json", "hermes", "mistral" or "smollm2".
std::string_view name_of(ToolFormat format);
// nullopt for a name that is not one of these.
std::optional<ToolFormat> tool_format_named(std::string_view name);
std::vector<std::string> tool_format_names();

// The key of a call's arguments: "arguments" or "parameters".
std::string_view arguments_key(ToolFormat format);

// How models of a chat template reason.
enum class ReasoningFormat : uint8_t {
  kNone,
  kQwen3,       // the model opens its reasoning, or the template does
  kDeepSeekR1,  // every answer begins inside of the reasoning
};
// "none", "qwen3" or "deepseek_r1".
std::string_view name_of(ReasoningFormat format);
std::optional<ReasoningFormat> reasoning_format_named(std::string_view name);
std::vector<std::string> reasoning_format_names();

// What the source of a chat template shows.
struct TemplateFormats {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool writes_tools = false;  // it uses the variable `tools`
};
TemplateFormats formats_of_template(std::string_view jinja);

// How the answer to a prompt begins. `prompt_end`: the last bytes of the prompt's text, control tokens
// included.
Reasoning reasoning_after(ReasoningFormat format, std::string_view prompt_end);

}  // namespace serval
