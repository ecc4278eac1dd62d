#include "tests/grammar/example_grammars.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace serval::testing {
namespace {

// A file of tests/data/grammar/gbnf.
std::string grammar_of(const std::string& name) {
  std::ifstream file(SERVAL_TEST_DATA "/grammar/gbnf/" + name + ".gbnf");
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::span<const ExampleGrammar> example_grammars() {
  static const std::vector<ExampleGrammar> all = {
      {"arithmetic",
       grammar_of("arithmetic"),
       {"1 + 2 = 3\n", "(1 + 2) * -3.50 = 0\n1 = 1\n", "-(((7))) = 7\n"},
       {"", "1+2 = 3\n", "01 = 1\n", "1 + 2 = 3", "(1 = 1\n", "1. = 1\n"}},
      {"list",
       grammar_of("list"),
       {"- milk\n", "1. milk\n2. Brot und Käse\n- 卵\n"},
       {"", "- \n", "- milk", "* milk\n", "- a\r\n", "- a\n\n", "- a\xE2\x80\xA8\n"}},
      {"json",
       grammar_of("json"),
       {"{}", R"({"a": [1, -2.5e+3, {"b": null}], "é": "\u00e9\n", "c":true})", "{\n\t\"a\":\n  []}", "{ } "},
       {"", "[]", "{", "{ }  ", R"({"a"})", R"({"a": 01})", R"({"a": "\x"})", R"({a: 1})",
        "{\"a\": \"\n\"}"}},
      {"chess",
       grammar_of("chess"),
       {"1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd5\n", "1. Nbd7+ e8=Q#\n9. O-O-O\n"},
       {"", "1. e4\n", "1. e9 e5\n", "1. e4 e5\n2. O-O-O-O\n", "2. e4 e5\n"}},
      {"calls",
       grammar_of("calls"),
       {"f();\n", "f(1, g('it', h()));\nx_1('');\n"},
       {"", "f()", "F();\n", "f(1 2);\n", "f(g(1);\n", "f('a\n');\n"}},
      {"sql",
       grammar_of("sql"),
       {"SELECT id FROM users", "SELECT id, age FROM orders WHERE name = 17"},
       {"SELECT FROM users", "SELECT id FROM user", "SELECT id FROM users WHERE", "select id FROM users"}},
      {"japanese", grammar_of("japanese"), {"こんにちは。", "東京", "カ9"}, {"", "。", "A", "\xE3\x81"}},
  };
  return all;
}

}  // namespace serval::testing
