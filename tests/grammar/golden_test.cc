// Compares with the results of other libraries on generated cases. tools/pattern_goldens.mjs and
// tools/schema_goldens.py made the cases; the files state the versions.
#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/grammar/configurations.h"
#include "engine/grammar/json_schema.h"
#include "engine/grammar/pattern.h"
#include "tests/grammar/reading.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using namespace grammar;
using nlohmann::json;

json goldens(const char* name) {
  return json::parse(std::ifstream(std::string(SERVAL_TEST_DATA "/grammar/") + name)).at("cases");
}

// Beyond ASCII, engines differ in their classes, and ours matches only the characters that all of them
// accept.
bool has_class(const std::string& pattern) {
  return pattern.find("\\s") != std::string::npos || pattern.find("\\S") != std::string::npos ||
         pattern.find("\\D") != std::string::npos || pattern.find("\\W") != std::string::npos ||
         pattern.find("[^\\") != std::string::npos;
}
bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

TEST(PatternGoldens, FindsWhatAJavaScriptEngineFinds) {
  size_t compared = 0, found = 0, refused = 0;
  for (const json& one : goldens("patterns.json")) {
    const auto pattern = one.at("pattern").get<std::string>();
    std::optional<PatternAutomaton> automaton;
    try {
      automaton = compile_pattern(pattern);
    } catch (const Error&) {
      ++refused;
      EXPECT_TRUE(one.at("found").is_null()) << pattern;
      continue;
    }
    ASSERT_FALSE(one.at("found").is_null()) << pattern << " is no pattern";
    for (size_t i = 0; i < one.at("texts").size(); ++i) {
      const auto text = one.at("texts")[i].get<std::string>();
      const bool expected = one.at("found")[i], is = is_found(*automaton, text);
      if (is_ascii(text) || !has_class(pattern)) {
        EXPECT_EQ(is, expected) << pattern << " in " << json(text);
      } else {
        EXPECT_TRUE(!is || expected) << pattern << " in " << json(text);
      }
      ++compared;
      found += is ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 20'000U);
  EXPECT_GT(found, 10'000U);
  EXPECT_EQ(refused, 16U) << "those that are no patterns";
}

TEST(SchemaGoldens, AcceptsOnlyValidTextsAndAllValidNumbers) {
  size_t valid = 0, invalid = 0, refused = 0, cases = 0;
  for (const json& one : goldens("schemas.json")) {
    const auto schema = one.at("schema").get<std::string>();
    ++cases;
    std::optional<Grammar> grammar;
    try {
      grammar = compile_json_schema(schema);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(),
                  ::testing::AnyOf(::testing::HasSubstr("no finite value"), ::testing::HasSubstr("no number"),
                                   ::testing::HasSubstr("is less than")))
          << schema;
      if (one.at("complete") == true) {
        EXPECT_EQ(one.at("valid"), json::array()) << schema;
      }
      continue;
    }
    for (const json& text : one.at("invalid")) {
      EXPECT_FALSE(reads(*grammar, text.get<std::string>())) << schema << " has " << text;
      ++invalid;
    }
    for (const json& text : one.at("valid")) {
      const bool is = reads(*grammar, text.get<std::string>());
      if (one.at("complete") == true) {
        EXPECT_TRUE(is) << schema << " has not " << text;
      }
      valid += is ? 1 : 0;
    }
  }
  EXPECT_GT(invalid, 8000U);
  EXPECT_GT(valid, 4000U);
  EXPECT_LT(refused, cases / 3);
}

}  // namespace
}  // namespace serval::testing
