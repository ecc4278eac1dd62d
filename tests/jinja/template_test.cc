#include "models/jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval::jinja {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::string rendered(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  return Template(source, "here").render(from_json(variables, Origin::kData)).bytes();
}

// The error line of parsing or running a template.
std::string error_of(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  return tiny::error_of([&] { rendered(source, variables); });
}

TEST(Jinja, WritesTextAndValues) {
  EXPECT_EQ(rendered("a {{ 1 + 1 }} {{ name }}", {{"name", "é"}}), "a 2 é");
  EXPECT_EQ(rendered("{{ nothing }}{{ none }}"), "None");
  EXPECT_EQ(rendered(""), "");
}

TEST(Jinja, DropsOneLineEndAfterABlockAndTheSpacesBeforeIt) {
  EXPECT_EQ(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(rendered("x  {% if true %} y {% endif %} z"), "x   y  z");
  EXPECT_EQ(rendered("a\n  {{ 1 }}\nb"), "a\n  1\nb");
  EXPECT_EQ(rendered("a  {{- 1 -}}  \n b"), "a1b");
  EXPECT_EQ(rendered("a\n  {%+ if true +%}\nb{% endif %}"), "a\n  \nb");
  EXPECT_EQ(rendered("a\n  {# note #}\nb{#- x -#} c"), "a\nbc");
  EXPECT_EQ(rendered("{% if true %}\n   {% endif %}x"), "x");
  EXPECT_EQ(rendered("a\r\nb\rc\r\n"), "a\nb\nc");
}

TEST(Jinja, LeavesRawTextAlone) {
  EXPECT_EQ(rendered("{% raw %}{{ a }}{% b %}{% endraw %}c"), "{{ a }}{% b %}c");
  EXPECT_EQ(rendered("a {%- raw -%} {{ x }} {%- endraw -%} b"), "a{{ x }}b");
}

TEST(Jinja, VariablesOfALoopAreLocal) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}"),
            "15151");
  EXPECT_EQ(
      rendered(
          "{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
      "4");
  EXPECT_EQ(rendered("{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
}

TEST(Jinja, CommasMakeTuples) {
  EXPECT_EQ(rendered("{% set a, b = 1, 'x' %}{{ a }}{{ b }}"), "1x");
  EXPECT_EQ(rendered("{% set a, b = [1, 2] %}{{ b, a }}"), "(2, 1)");
  EXPECT_EQ(rendered("{% set a = 1, %}{{ a }}"), "(1,)");
  EXPECT_EQ(rendered("{% for a, b in (1, 2), (3, 4) if a > 1 %}{{ a }}{{ b }}{% endfor %}"), "34");
}

TEST(Jinja, FormatsValues) {
  EXPECT_EQ(rendered("{{ '%s is %05.1f%%' % ('x', 2.25) }}"), "x is 002.2%");
  EXPECT_EQ(rendered("{{ '%(a)-4d|%(b)s' % {'a': 7, 'b': [1]} }}"), "7   |[1]");
  EXPECT_EQ(rendered("{{ '{} {1}'.format(1) if false else '{:>6}|{:,}'.format('ab', 1234567) }}"),
            "    ab|1,234,567");
  EXPECT_EQ(rendered("{{ '{a.x}{b[0]}{c!r}'.format(a={'x': 1}, b=[2], c='d') }}"), "12'd'");
  EXPECT_EQ(rendered("{{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }}"), "31 3 15 1000");
}

TEST(Jinja, ChangesTheCaseOfAllLetters) {
  EXPECT_EQ(rendered("{{ 'straße éÀ' | upper }}"), "STRASSE ÉÀ");
  EXPECT_EQ(rendered("{{ 'ΑΣ ΣΑ' | lower }}"), "ας σα");
  EXPECT_EQ(rendered("{{ 'ǆ ü-x' | title }}|{{ 'ǆ'.title() }}|{{ 'éa Éb'.capitalize() }}"), "Ǆ Ü-X|ǅ|Éa éb");
  EXPECT_EQ(rendered("{{ 'É' is upper }}{{ 'é' is upper }}{{ '12'.isdigit() }}{{ ''.isdigit() }}"),
            "TrueFalseTrueFalse");
}

TEST(Jinja, HasLoopVariables) {
  EXPECT_EQ(rendered("{% for c in 'abc' %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last "
                     "}} {% endfor %}"),
            "12TrueFalse 21FalseFalse 30FalseTrue ");
  EXPECT_EQ(rendered("{% for c in 'abc' %}{{ loop.previtem }}<{{ loop.nextitem }}{{ loop.cycle('x', 'y') }} "
                     "{% endfor %}"),
            "<bx a<cy b<x ");
  EXPECT_EQ(rendered("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}"), "a1");
  EXPECT_EQ(rendered("{% for i in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(rendered("{% for i in range(9) if i is odd %}{% if i == 3 %}{% continue %}{% elif i == 7 %}{% "
                     "break %}{% endif %}{{ i }}{% endfor %}"),
            "15");
}

TEST(Jinja, ElseRunsUnlessAnIterationCompletes) {
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{{ i }}{% break %}{% else %}e{% endfor %}"), "1e");
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{{ i }}{% else %}e{% endfor %}"), "12");
}

TEST(Jinja, MacrosAreFunctions) {
  EXPECT_EQ(
      rendered("{% macro f(a, b='x') %}{{ a }}{{ b }};{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{{ f(b=3) }}"),
      "1x;12;3;");
  EXPECT_EQ(
      rendered("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"),
      "3210");
}

TEST(Jinja, MethodsComeBeforeEntriesWithADotAndAfterThemInBrackets) {
  const ordered_json dict = {{"d", {{"items", 5}}}};
  EXPECT_EQ(rendered("{{ d['items'] }} {{ d.items() | list }}", dict), "5 [('items', 5)]");
}

TEST(Jinja, TracksTheOriginOfText) {
  const Template program("<{{ m.role }}>{{ (m.content | trim)[1:] ~ '</s>' | upper }}", "here");
  const Text text =
      program.render(from_json({{"m", {{"role", "user"}, {"content", " a</s> "}}}}, Origin::kData));
  std::string origins;
  for (std::size_t i = 0; i < text.size(); ++i) origins += text.origin(i) == Origin::kData ? 'd' : 't';
  EXPECT_EQ(text.bytes(), "<user></s></S>");
  EXPECT_EQ(origins, "tddddtddddtttt");
}

TEST(Jinja, StrftimeNowUsesTheClock) {
  std::tm time{};
  time.tm_year = 99;
  time.tm_mday = 31;
  time.tm_mon = 11;
  const Template program("{{ strftime_now('%d.%m.%Y') }}", "here");
  EXPECT_EQ(program.render(Value::dict({}), [time] { return time; }).bytes(), "31.12.1999");
}

struct Failure {
  const char* source;
  const char* because;
};

TEST(Jinja, NamesTheLineOfAnError) {
  constexpr Failure kFailures[] = {
      {"a\n{{ 1 +\n }}", "here: line 3: expected an expression, found }}"},
      {"{% if x %}", "here: line 1: the template ends without endif"},
      {"\n{% for x in y %}{% if a %}{% endfor %}", "line 2: the block endfor is not supported here"},
      {"{% endfor %}", "line 1: the block endfor is not supported here"},
      {"{% include 'x' %}", "the block include is not supported here"},
      {"{{ a", "{{ has no }}"},
      {"{{ 'a }}", "a string has no end"},
      {"{# a", "{# has no #}"},
      {"{% raw %}", "raw has no endraw"},
      {"{{ a ! b }}", "unexpected \"!\""},
      {"{{ (1] }}", "unexpected ']'"},
      {"{{ 99999999999999999999 }}", "a number out of range"},
      {"{{ '\\ud800' }}", "\\u needs 4 digits of a character"},
      {"{{ f(a=1, 2) }}", "an argument without a name after one with a name"},
      {"{% break %}", "break outside of a loop"},
      {"{% for a in b recursive %}{% endfor %}", "a recursive for is not supported"},
      {"{{ 1 }}\n{{ a.b }}", "here: line 2: 'a' is undefined"},
      {"{{ a + 'x' }}", "'a' is undefined"},
      {"{{ {}.x.y }}", "\"x\" of a dict is undefined"},
      {"{{ 'x' + 1 }}", "str + int is not possible"},
      {"{{ none < 1 }}", "None < int is not possible"},
      {"{{ 1 // 0 }}", "division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "an integer of more than 64 bits"},
      {"{{ x | nosuch }}", "the filter \"nosuch\" is not supported"},
      {"{{ x is nosuch }}", "the test \"nosuch\" is not supported"},
      {"{{ nosuch() }}", "'nosuch' is undefined"},
      {"{{ 'a'.nosuch() }}", "\"nosuch\" of a str is undefined"},
      {"{{ 5() }}", "a int cannot be called"},
      {"{{ 'a'.strip('b', 2) }}", "strip: unknown or too many arguments"},
      {"{{ 'a'.replace('b') }}", "replace needs the argument new"},
      {"{{ '%d' % 'a' }}", "%d: a number is needed, not a str"},
      {"{{ '%s' % () }}", "the format needs more values"},
      {"{{ 'a' % 1 }}", "not all values are used"},
      {"{{ '%s'.format }}{{ '{}'.format() }}", "format: no value 0"},
      {"{{ '{0} {}'.format(1, 2) }}", "format: both {} and {0}"},
      {"{{ '%99999s' % 1 }}", "limit: 10000"},
      {"{{ 007 }}", "an integer that begins with 0"},
      {"{{ ['a'] | sum }}", "int + str is not possible"},
      {"{% set a.b = 1 %}", "'a' is not a namespace"},
      {"{% set a, b = [1] %}", "1 values for 2 names"},
      {"{{ [namespace()] }}", "a namespace in a list is not supported"},
      {"{{ {'a': range} }}", "a function in a dict is not supported"},
      {"{% set n = namespace() %}{% set n.n = n %}", "a namespace in a namespace is not supported"},
      {"{{ range(100001) }}", "range: more than 100000"},
      {"{{ {}.items | tojson }}", "tojson: a function is not JSON"},
      {"\n\n{{ raise_exception('no ' ~ 'way\n') }}",
       "here: line 3: the template refuses this: \"no way\\n\""},
  };
  for (const auto& [source, because] : kFailures) EXPECT_THAT(error_of(source), HasSubstr(because)) << source;
}

std::string repeated(int times, const std::string& text) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Jinja, RefusesTemplatesThatAreTooLargeOrTooDeep) {
  EXPECT_THAT(error_of(std::string(kMaxTemplateBytes + 1, 'x')),
              HasSubstr("here: a template of 1048577 bytes; limit: 1048576"));
  EXPECT_THAT(error_of("{{ " + repeated(100, "(") + "1" + repeated(100, ")") + " }}"),
              HasSubstr("nested deeper than 60"));
  EXPECT_THAT(error_of("{{ 1" + repeated(1000, " + 1") + " }}"), HasSubstr("more than 800 operations"));
  EXPECT_THAT(error_of("{{ " + repeated(1000, "not ") + "1 }}"), HasSubstr("more than 800 operations"));
  EXPECT_THAT(error_of(repeated(100, "{% if 1 %}") + repeated(100, "{% endif %}")),
              HasSubstr("blocks nested deeper than 60"));
}

TEST(Jinja, StopsRunsThatExceedTheLimits) {
  const std::string nested_loops =
      "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(error_of(nested_loops), HasSubstr("loops more than 250000 times"));
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("nested deeper than 1000"));
  EXPECT_THAT(error_of("{{ 'abc' * 1000000000 }}"),
              testing::AnyOf(HasSubstr("takes too long"), HasSubstr("a value of more than")));
  const std::string doubling =
      "{% set n = namespace(x='abcdefgh') %}{% for i in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
  EXPECT_THAT(error_of(doubling), HasSubstr("takes too long"));
  const std::string shared =
      "{% set n = namespace(x=['a']) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor %}";
  EXPECT_THAT(error_of(shared), HasSubstr("a value of more than"));
  const std::string deep =
      "{% set n = namespace(x=[]) %}{% for i in range(200) %}{% set n.x = [n.x] %}{% endfor %}";
  EXPECT_THAT(error_of(deep), HasSubstr("nested deeper than 100"));
}

TEST(Jinja, StopsAtTheGivenLimits) {
  const auto error = [](const std::string& source, const Limits& limits) {
    return tiny::error_of([&] { Template(source, "here").render(Value::dict({}), local_time, limits); });
  };
  EXPECT_THAT(error("{% for i in range(9) %}{% endfor %}", {.iterations = 8}),
              HasSubstr("loops more than 8 times"));
  EXPECT_THAT(error("{% for i in range(9) %}x{% endfor %}", {.output_bytes = 8}), HasSubstr("8 bytes"));
  EXPECT_THAT(error("{{ 1 }}{{ 2 }}", {.work = 50, .work_per_byte = 0}), HasSubstr("takes too long"));
}

}  // namespace
}  // namespace serval::jinja
