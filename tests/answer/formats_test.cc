#include "engine/answer/formats.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "vm/base/text_file.h"

namespace serval {
namespace {

using ::testing::ElementsAre;

TemplateFormats formats_of(const std::string& name) {
  constexpr size_t kMaxBytes = 1 << 20;
  const auto folder = std::filesystem::path(SERVAL_TEST_DATA) / "chat_templates";
  return formats_of_template(read_text_file(folder / (name + ".jinja"), kMaxBytes));
}

TEST(Formats, HaveTheNamesOfVllmsParsers) {
  EXPECT_THAT(tool_format_names(), ElementsAre("none", "llama3_json", "hermes", "mistral", "smollm2"));
  EXPECT_THAT(reasoning_format_names(), ElementsAre("none", "qwen3", "deepseek_r1"));
  for (const std::string& name : tool_format_names()) EXPECT_EQ(name_of(*tool_format_named(name)), name);
  for (const std::string& name : reasoning_format_names())
    EXPECT_EQ(name_of(*reasoning_format_named(name)), name);
  EXPECT_FALSE(tool_format_named("pythonic"));
  EXPECT_FALSE(reasoning_format_named(""));
}

TEST(Formats, AreRecognisedFromTheTemplate) {
  EXPECT_EQ(formats_of("llama3_1_tools").tools, ToolFormat::kLlama3Json);
  EXPECT_EQ(formats_of("qwen2_5_tools").tools, ToolFormat::kHermes);
  EXPECT_EQ(formats_of("qwen3_thinking").tools, ToolFormat::kHermes);
  EXPECT_EQ(formats_of("mistral_v3_tools").tools, ToolFormat::kMistral);
  EXPECT_EQ(formats_of("smollm2_tools").tools, ToolFormat::kSmolLm2);
  for (const char* name : {"llama3", "smollm2", "chatml", "command_r_tools", "granite"})
    EXPECT_EQ(formats_of(name).tools, ToolFormat::kNone) << name;
  for (const char* other :
       {"{{ tools }}[TOOL_CALLS]f[ARGS]{}", "{{ tools }}<tool_call><function=f></tool_call>",
        "{{ tools }}<tool_call>f<arg_key>a</arg_key></tool_call>"})
    EXPECT_EQ(formats_of_template(other).tools, ToolFormat::kNone) << other;
  EXPECT_TRUE(formats_of("qwen2_5_tools").writes_tools);
  EXPECT_FALSE(formats_of("llama3").writes_tools);
}

TEST(Formats, OfReasoningAreRecognisedFromTheTemplate) {
  for (const char* name : {"qwen3_thinking", "deepseek_r1", "smollm3_thinking"})
    EXPECT_EQ(formats_of(name).reasoning, ReasoningFormat::kQwen3) << name;
  for (const char* name : {"qwen2_5_tools", "llama3_1_tools"})
    EXPECT_EQ(formats_of(name).reasoning, ReasoningFormat::kNone) << name;
}

TEST(Formats, ThePromptsEndSaysHowTheAnswerBegins) {
  const auto after = [](std::string_view end) { return reasoning_after(ReasoningFormat::kQwen3, end); };
  EXPECT_EQ(after("<|im_start|>assistant\n"), Reasoning::kMayOpen);
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\n"), Reasoning::kOpen);
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\n\n</think>\n\n"), Reasoning::kNone);
  EXPECT_EQ(reasoning_after(ReasoningFormat::kDeepSeekR1, "<|Assistant|>"), Reasoning::kOpen);
  EXPECT_EQ(reasoning_after(ReasoningFormat::kDeepSeekR1, "<think>\n\n</think>\n"), Reasoning::kNone);
  EXPECT_EQ(reasoning_after(ReasoningFormat::kNone, "<think>"), Reasoning::kNone);
}

}  // namespace
}  // namespace serval
