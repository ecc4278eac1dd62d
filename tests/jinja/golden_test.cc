// Compares with `transformers` on templates in the style of published ones.
#include <ctime>
#include <filesystem>
#include <gtest/gtest.h>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "models/jinja/template.h"
#include "vm/base/error.h"
#include "vm/base/json_file.h"

namespace serval::jinja {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

std::filesystem::path folder() {
  return std::filesystem::path(SERVAL_TEST_DATA) / "chat_templates";
}

const ordered_json& goldens() {
  static const ordered_json data =
      ordered_json::parse(read_text_file(folder() / "goldens.json", kMaxFileBytes));
  return data;
}

std::tm recorded_time() {
  std::tm time{};
  std::istringstream(goldens()["now"].get<std::string>()) >> std::get_time(&time, "%Y-%m-%dT%H:%M:%S");
  std::mktime(&time);
  return time;
}

// The variables that transformers passes to a template: `tools` and `documents` always exist.
Value variables_of(const ordered_json& example) {
  ordered_json variables = {{"tools", nullptr}, {"documents", nullptr}};
  variables.update(example);
  variables.update(goldens()["tokens"]);
  for (ordered_json& message : variables["messages"]) {
    if (message.contains("reasoning_content")) message["thinking"] = message["reasoning_content"];
  }
  return from_json(variables, Origin::kData);
}

ordered_json rendered(const Template& program, const ordered_json& example) {
  try {
    return program.render(variables_of(example), recorded_time).bytes();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return {{"error", error.what()}};
  }
}

TEST(JinjaGolden, HasEnoughTemplatesAndConversations) {
  EXPECT_GE(goldens()["texts"].size(), 25u);
  EXPECT_EQ(goldens()["cases"].size(), 20u);
}

TEST(JinjaGolden, WritesWhatTransformersWrites) {
  for (const auto& [name, texts] : goldens()["texts"].items()) {
    const std::string file = name + ".jinja";
    const Template program(read_text_file(folder() / file, kMaxTemplateBytes), file);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const ordered_json text = rendered(program, goldens()["cases"][i]);
      if (texts[i].is_null()) {
        EXPECT_TRUE(text.is_object()) << name << " of conversation " << i << " does not raise: " << text;
      } else {
        EXPECT_EQ(text, texts[i]) << name << " of conversation " << i;
      }
    }
  }
}

// tools/expression_goldens.py made the cases.
TEST(JinjaGolden, WritesWhatJinjaWritesForExpressions) {
  const ordered_json data = ordered_json::parse(read_text_file(folder() / "expressions.json", kMaxFileBytes));
  const Value variables = from_json(data["variables"], Origin::kData);
  std::size_t same = 0, refused = 0;
  for (const ordered_json& one : data["cases"]) {
    const auto source = one["template"].get<std::string>();
    ordered_json out;
    std::string why;
    try {
      out = Template(source, "here").render(variables).bytes();
    } catch (const Error& error) {
      why = error.what();
    }
    if (!why.empty() && !one["writes"].is_null()) {
      EXPECT_NE(why.find("not supported"), std::string::npos)
          << source << " writes " << one["writes"] << ", not " << why;
      ++refused;
      continue;
    }
    EXPECT_EQ(out, one["writes"]) << source;
    ++same;
  }
  EXPECT_GT(same, 2000u);
  EXPECT_LT(refused, 60u) << "what docs/chat_templates.md says is not there";
}

}  // namespace
}  // namespace serval::jinja
