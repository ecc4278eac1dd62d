#include "engine/answer/formats.h"

#include <algorithm>
#include <span>

namespace serval {
namespace {

template <typename Format>
struct Named {
  Format format;
  std::string_view name;
};

constexpr Named<ToolFormat> kToolFormats[] = {{ToolFormat::kNone, "none"},
                                              {ToolFormat::kLlama3Json, "llama3_json"},
                                              {ToolFormat::kHermes, "hermes"},
                                              {ToolFormat::kMistral, "mistral"},
                                              {ToolFormat::kSmolLm2, "smollm2"}};
constexpr Named<ReasoningFormat> kReasoningFormats[] = {{ReasoningFormat::kNone, "none"},
                                                        {ReasoningFormat::kQwen3, "qwen3"},
                                                        {ReasoningFormat::kDeepSeekR1, "deepseek_r1"}};

template <typename Format>
std::string_view name_in(std::span<const Named<Format>> all, Format format) {
  return std::ranges::find(all, format, &Named<Format>::format)->name;
}

template <typename Format>
std::optional<Format> format_in(std::span<const Named<Format>> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Named<Format>::name);
  return found == all.end() ? std::nullopt : std::optional(found->format);
}

template <typename Format>
std::vector<std::string> names_in(std::span<const Named<Format>> all) {
  std::vector<std::string> names;
  for (const Named<Format>& each : all) names.emplace_back(each.name);
  return names;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Llama 3.1 and 3.2 write "parameters" where the other formats write "arguments".
bool is_llama3(std::string_view jinja) {
  return has(jinja, kPythonTag) || (has(jinja, "<|start_header_id|>") && has(jinja, "\"parameters"));
}

// Newer models use markers of these formats for calls that are not JSON objects: [TOOL_CALLS]name[ARGS]{…},
// <tool_call><function=name>…, <tool_call>name<arg_key>….
bool is_other_format(std::string_view jinja) {
  return has(jinja, "[ARGS]") || has(jinja, "<function=") || has(jinja, "<arg_key>");
}

ToolFormat tools_of(std::string_view jinja) {
  if (is_other_format(jinja)) return ToolFormat::kNone;
  if (has(jinja, kToolCallsBegin)) return ToolFormat::kMistral;
  if (has(jinja, "<tool_call>[")) return ToolFormat::kSmolLm2;
  if (has(jinja, kToolCallBegin)) return ToolFormat::kHermes;
  return is_llama3(jinja) ? ToolFormat::kLlama3Json : ToolFormat::kNone;
}

}  // namespace

std::string_view name_of(ToolFormat format) {
  return name_in<ToolFormat>(kToolFormats, format);
}
std::optional<ToolFormat> tool_format_named(std::string_view name) {
  return format_in<ToolFormat>(kToolFormats, name);
}
std::vector<std::string> tool_format_names() {
  return names_in<ToolFormat>(kToolFormats);
}

std::string_view name_of(ReasoningFormat format) {
  return name_in<ReasoningFormat>(kReasoningFormats, format);
}
std::optional<ReasoningFormat> reasoning_format_named(std::string_view name) {
  return format_in<ReasoningFormat>(kReasoningFormats, name);
}
std::vector<std::string> reasoning_format_names() {
  return names_in<ReasoningFormat>(kReasoningFormats);
}

std::string_view arguments_key(ToolFormat format) {
  return format == ToolFormat::kLlama3Json ? "parameters" : "arguments";
}

TemplateFormats formats_of_template(std::string_view jinja) {
  TemplateFormats formats;
  formats.writes_tools = has(jinja, "tools");
  if (formats.writes_tools) formats.tools = tools_of(jinja);
  if (has(jinja, kThinkEnd)) formats.reasoning = ReasoningFormat::kQwen3;
  return formats;
}

Reasoning reasoning_after(ReasoningFormat format, std::string_view prompt_end) {
  if (format == ReasoningFormat::kNone) return Reasoning::kNone;
  const size_t last = prompt_end.find_last_not_of(" \n");
  const std::string_view text = prompt_end.substr(0, last == std::string_view::npos ? 0 : last + 1);
  if (text.ends_with(kThinkBegin)) return Reasoning::kOpen;
  if (text.ends_with(kThinkEnd)) return Reasoning::kNone;
  return format == ReasoningFormat::kDeepSeekR1 ? Reasoning::kOpen : Reasoning::kMayOpen;
}

}  // namespace serval
