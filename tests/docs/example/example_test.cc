// docs/add_an_instruction.md: the added instruction is in the bundled model's program, has the waits that the
// page shows, and does not change the text.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "instructions/isa_reference.h"
#include "serval/engine.h"

namespace serval {
namespace {

using ::testing::HasSubstr;

std::string page() {
  std::ifstream file(SERVAL_EXAMPLE_PAGE);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs a command and returns its output.
std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

std::string text_of_bundled_model(std::string_view prompt, int tokens, uint64_t seed) {
  Engine engine = Engine::load({.backend = "host"});
  Request request{.prompt = std::string(prompt), .max_tokens = tokens};
  request.sampling = engine.info().default_sampling;
  request.sampling.seed = seed;
  return engine.generate(request).text;
}

TEST(Example, ReferencePageEndsAsShown) {
  const std::string reference = isa_reference();
  const std::string section = reference.substr(reference.rfind("\n## ") + 1);
  ASSERT_THAT(section, HasSubstr("scale_query"));
  EXPECT_THAT(page(), HasSubstr(section));
}

TEST(Example, TextOfASeedStaysAsItWas) {
  const char* program = std::getenv("SERVAL_TEST_PROGRAM");
  ASSERT_NE(program, nullptr) << "SERVAL_TEST_PROGRAM names the executable without the instruction";
  const std::string before = output_of(
      fmt::format("{} generate --backend host -p 'Once upon a time' -n 40 -s 7 2>/dev/null", program));
  const std::string text = text_of_bundled_model("Once upon a time", 40, 7);
  ASSERT_FALSE(text.empty());
  EXPECT_THAT(before, HasSubstr(text));
}

}  // namespace
}  // namespace serval
