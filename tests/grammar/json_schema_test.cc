#include "engine/grammar/json_schema.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/grammar/reading.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(JsonObject, IsAnyObject) {
  const grammar::Grammar object = grammar::json_object_grammar();
  for (const char* text : {"{}", R"({"a":1})", R"({"a": [1, 2.5e-3, {"b": null}], "c":true})",
                           "{\n  \"a\": \"é\\u00e9\\\"\\n\"\n}", R"({"":[]})", R"({"a":-0.5E+10})"})
    EXPECT_TRUE(reads(object, text)) << text;
  for (const char* text : {"", "[]", "1", "{", "{}}", "{} ", R"({"a"})", R"({"a":01})", R"({"a":1,})",
                           R"({a:1})", R"({"a":.5})", R"({"a":"\x"})", "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}",
                           "{\"a\":\"\xc3\"}", R"({"a":"\ud800"})", R"({"a":tru})", R"({"a":1e999})"})
    EXPECT_FALSE(reads(object, text)) << text;
}

// Nesting is limited to a depth that every reader supports.
TEST(JsonObject, LimitsNesting) {
  const grammar::Grammar object = grammar::json_object_grammar();
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"a":)";
  EXPECT_TRUE(begins(object, deep));
  for (int i = 0; i < 10; ++i) deep += R"({"a":)";
  EXPECT_FALSE(begins(object, deep));
}

TEST(JsonSchema, KnowsTheTypes) {
  EXPECT_TRUE(is_valid(R"({"type":"string"})", R"("a")"));
  EXPECT_FALSE(is_valid(R"({"type":"string"})", "1"));
  EXPECT_TRUE(is_valid(R"({"type":"integer"})", "-12"));
  EXPECT_FALSE(is_valid(R"({"type":"integer"})", "1.5"));
  EXPECT_TRUE(is_valid(R"({"type":"number"})", "1.5"));
  EXPECT_TRUE(is_valid(R"({"type":"boolean"})", "false"));
  EXPECT_TRUE(is_valid(R"({"type":["null","integer"]})", "null"));
  EXPECT_TRUE(is_valid(R"({"type":["null","integer"]})", "7"));
  EXPECT_TRUE(is_valid("{}", R"([{"a":1}])"));
  EXPECT_TRUE(is_valid("true", "2"));
  EXPECT_TRUE(is_valid(R"({"minLength":2})", R"("ab")"));
  EXPECT_FALSE(is_valid(R"({"minLength":2})", "7"));  // a keyword for strings implies the type
}

TEST(JsonSchema, WritesPropertiesInTheirOrder) {
  const std::string schema =
      R"({"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"boolean"},"m":{"type":"null"}},
          "required":["z","m"]})";
  EXPECT_TRUE(is_valid(schema, R"({"z":1,"a":true,"m":null})"));
  EXPECT_TRUE(is_valid(schema, R"({"z": 1, "m": null})"));
  EXPECT_FALSE(is_valid(schema, R"({"a":true,"z":1,"m":null})"));
  EXPECT_FALSE(is_valid(schema, R"({"z":1,"a":true})"));
  EXPECT_FALSE(is_valid(schema, R"({"z":1,"m":null,"b":1})"));
  EXPECT_FALSE(is_valid(schema, R"({"z":1,"m":null,})"));
  EXPECT_FALSE(is_valid(schema, R"({,"z":1,"m":null})"));
}

TEST(JsonSchema, WritesAllOptionalPropertiesOrNone) {
  const std::string schema = R"({"properties":{"a":{"const":1},"b":{"const":2}}})";
  for (const char* text : {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"})
    EXPECT_TRUE(is_valid(schema, text)) << text;
  EXPECT_FALSE(is_valid(schema, R"({"a":1"b":2})"));
}

TEST(JsonSchema, AdditionalPropertiesExcludeTheNamedOnes) {
  const std::string schema =
      R"({"type":"object","properties":{"ab":{"type":"integer"},"aé":{"type":"integer"}},
          "additionalProperties":{"type":"string"}})";
  for (const char* text : {"{}", R"({"a":"x"})", R"({"abc":"x"})", R"({"b":"x","c":"y"})",
                           R"({"ab":1,"":"x"})", R"({"ab":1,"b\n":"x"})", R"({"aé":1,"aéa":"x"})"})
    EXPECT_TRUE(is_valid(schema, text)) << text;
  for (const char* text : {R"({"ab":"x"})", R"({"a\u0062":"x"})", R"({"aé":"x"})", R"({"c":1})",
                           "{\"a\xc3\":\"x\"}", "{\"a\xc3x\":\"x\"}"})
    EXPECT_FALSE(is_valid(schema, text)) << text;
  EXPECT_TRUE(is_valid(R"({"required":["a"],"additionalProperties":true})", R"({"a":[],"b":1})"));
  EXPECT_FALSE(is_valid(R"({"type":"object","additionalProperties":false})", R"({"a":1})"));
}

TEST(JsonSchema, CountsItems) {
  const std::string schema = R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})";
  EXPECT_FALSE(is_valid(schema, "[1]"));
  EXPECT_TRUE(is_valid(schema, "[1, 2]"));
  EXPECT_TRUE(is_valid(schema, "[1,2,3]"));
  EXPECT_FALSE(is_valid(schema, "[1,2,3,4]"));
  EXPECT_TRUE(is_valid(R"({"type":"array","maxItems":0})", "[]"));
  EXPECT_FALSE(is_valid(R"({"type":"array","maxItems":0})", "[1]"));
  EXPECT_TRUE(is_valid(R"({"items":false})", "[]"));
  EXPECT_FALSE(is_valid(R"({"items":false})", "[1]"));
}

TEST(JsonSchema, WritesPrefixItemsFirst) {
  const std::string schema =
      R"({"prefixItems":[{"const":"a"},{"type":"integer"}],"items":{"type":"null"},"maxItems":4})";
  EXPECT_TRUE(is_valid(schema, R"(["a",1])"));
  EXPECT_TRUE(is_valid(schema, R"(["a",1,null,null])"));
  EXPECT_FALSE(is_valid(schema, R"(["a",1,null,null,null])"));
  EXPECT_FALSE(is_valid(schema, R"([1,"a"])"));
  EXPECT_TRUE(is_valid(R"({"prefixItems":[{"const":1}],"items":false})", "[1]"));
}

TEST(JsonSchema, CountsCharacters) {
  const std::string schema = R"({"type":"string","minLength":2,"maxLength":3})";
  for (const char* text : {R"("ab")", R"("éé")", R"("a\n")", R"("\u00e9x")", R"("😀😀😀")"})
    EXPECT_TRUE(is_valid(schema, text)) << text;
  for (const char* text : {R"("a")", R"("abcd")", R"("é")", R"("\n")"})
    EXPECT_FALSE(is_valid(schema, text)) << text;
  EXPECT_TRUE(is_valid(R"({"type":"string","maxLength":2147483647})", R"("a")"));
}

TEST(JsonSchema, KnowsPatterns) {
  const std::string schema = R"({"type":"string","pattern":"^[a-c\"\\\\\n]+$","maxLength":4})";
  for (const char* text : {R"("abc")", R"("a\"")", R"("\\\n")"}) EXPECT_TRUE(is_valid(schema, text)) << text;
  for (const char* text : {R"("")", R"("abcabc")", R"("d")", R"("\u0061")"})
    EXPECT_FALSE(is_valid(schema, text)) << text;
  const std::string anywhere = R"({"type":"string","pattern":"ab","minLength":4})";
  EXPECT_TRUE(is_valid(anywhere, R"("xabx")"));
  EXPECT_TRUE(is_valid(anywhere, R"("ab\u0041y")"));
  EXPECT_FALSE(is_valid(anywhere, R"("xab")"));
  EXPECT_TRUE(is_valid(R"({"format":"uuid"})", R"("12345678-9abc-def0-1234-56789abcdef0")"));
  EXPECT_TRUE(is_valid(R"({"type":"string","format":"date-time"})", R"("2024-02-28T23:59:59Z")"));
  EXPECT_FALSE(is_valid(R"({"type":"string","format":"date"})", R"("2024-13-01")"));
  EXPECT_TRUE(is_valid(R"({"format":"email"})", R"("ann.b@mail.example.org")"));
  EXPECT_FALSE(is_valid(R"({"format":"email"})", R"("ann")"));
  EXPECT_TRUE(is_valid(R"({"format":"ipv4"})", R"("10.0.255.1")"));
  EXPECT_FALSE(is_valid(R"({"format":"ipv4"})", R"("10.0.256.1")"));
  EXPECT_TRUE(is_valid(R"({"format":"email","pattern":"\\.org$"})", R"("ann@b.org")"));
}

TEST(JsonSchema, ListsValues) {
  const std::string schema = R"({"enum":["a","ab",1,12,null,{"k":[1,2]}]})";
  for (const char* text : {R"("a")", R"("ab")", "1", "12", "null", R"({"k":[1,2]})"})
    EXPECT_TRUE(is_valid(schema, text)) << text;
  for (const char* text : {R"("b")", "2", "123", R"("a)"}) EXPECT_FALSE(is_valid(schema, text)) << text;
  EXPECT_TRUE(is_valid(R"({"const":{"a":"é"}})", R"({"a":"é"})"));
  EXPECT_TRUE(is_valid(R"({"enum":[1,5,9],"minimum":4})", "5"));
  EXPECT_FALSE(is_valid(R"({"enum":[1,5,9],"minimum":4})", "1"));
  EXPECT_FALSE(is_valid(R"({"enum":["a",1],"type":"string"})", "1"));
}

// 1.0 and 1e3 are integers, and numbers keep all their digits.
TEST(JsonSchema, KeepsNumbersAsTheyAreWritten) {
  const std::string floats = R"({"type":"integer","enum":[1.0,2.0,2.5]})";
  EXPECT_TRUE(is_valid(floats, "1"));
  EXPECT_TRUE(is_valid(floats, "2"));
  EXPECT_FALSE(is_valid(floats, "2.5"));
  EXPECT_TRUE(is_valid(R"({"type":"integer","const":1e3})", "1000"));
  EXPECT_TRUE(is_valid(R"({"const":1e3})", "1e3"));
  const std::string big = "123456789012345678901234567890";
  EXPECT_TRUE(is_valid(R"({"const":)" + big + "}", big));
  EXPECT_TRUE(is_valid(R"({"type":"integer","enum":[)" + big + "]}", big));
  EXPECT_TRUE(is_valid(R"({"const":[0.1,{"a":-1.50}]})", R"([0.1,{"a":-1.50}])"));
  EXPECT_TRUE(is_valid(R"({"minLength":2.0,"type":"string"})", R"("ab")"));
}

TEST(JsonSchema, KeepsNumbersWithinBounds) {
  const auto accepts = [](const std::string& schema, std::initializer_list<const char*> texts,
                          bool expected) {
    for (const char* text : texts) EXPECT_EQ(is_valid(schema, text), expected) << schema << " " << text;
  };
  const std::string percent = R"({"type":"integer","minimum":0,"maximum":100})";
  accepts(percent, {"0", "7", "42", "99", "100"}, true);
  accepts(percent, {"-1", "-0", "101", "1000", "007", "1.0", "1e1"}, false);
  const std::string positive = R"({"type":"number","exclusiveMinimum":0,"maximum":1})";
  accepts(positive, {"0.5", "1", "1.0", "0.001", "0.999"}, true);
  accepts(positive, {"0", "0.0", "-0.5", "1.001", "2", "5e-1"}, false);
  accepts(R"({"type":"number","minimum":-2.5,"exclusiveMaximum":-0.25})", {"-2.5", "-1", "-0.26", "-2.49"},
          true);
  accepts(R"({"type":"number","minimum":-2.5,"exclusiveMaximum":-0.25})", {"-2.51", "-0.25", "0", "1", "-3"},
          false);
  accepts(R"({"type":"integer","minimum":1000000000000000000000})", {"1000000000000000000000"}, true);
  accepts(R"({"type":"integer","minimum":1000000000000000000000})", {"999999999999999999999", "5"}, false);
  accepts(R"({"minimum":3})", {"3", "3.5", "17"}, true);
  EXPECT_THAT(refusal_of(R"({"type":"integer","minimum":3,"maximum":2})"), HasSubstr("no number"));
  EXPECT_THAT(refusal_of(R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})"),
              HasSubstr("no number"));
  EXPECT_THAT(refusal_of(R"({"minimum":"3"})"),
              AllOf(HasSubstr("#/minimum"), HasSubstr("expected a number")));
  EXPECT_THAT(refusal_of(R"({"minimum":3,"exclusiveMinimum":true})"), HasSubstr("#/exclusiveMinimum"));
  EXPECT_THAT(refusal_of(R"({"maximum":1e999})"), HasSubstr("number"));
}

TEST(JsonSchema, WritesMultiples) {
  const std::string sevens = R"({"type":"integer","multipleOf":7,"minimum":-20,"maximum":500})";
  for (int i = -30; i < 520; ++i)
    EXPECT_EQ(is_valid(sevens, std::to_string(i)), i % 7 == 0 && i >= -20 && i <= 500) << i;
  const std::string cents = R"({"type":"number","multipleOf":0.01,"minimum":0})";
  for (const char* text : {"0", "1", "1.5", "1.25", "0.07", "19.99"})
    EXPECT_TRUE(is_valid(cents, text)) << text;
  for (const char* text : {"0.001", "1.255", "-1", "1e2"}) EXPECT_FALSE(is_valid(cents, text)) << text;
  EXPECT_TRUE(is_valid(R"({"type":"integer","multipleOf":2.5})", "5"));
  EXPECT_FALSE(is_valid(R"({"type":"integer","multipleOf":2.5})", "12"));
  EXPECT_TRUE(is_valid(R"({"multipleOf":1000000})", "3000000"));
  EXPECT_FALSE(is_valid(R"({"multipleOf":1000000})", "3500000"));
  EXPECT_THAT(refusal_of(R"({"multipleOf":0})"), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of(R"({"multipleOf":1234.5678})"), HasSubstr("multipleOf: 1234.5678 is not supported"));
}

// pydantic writes tagged unions in this form.
TEST(JsonSchema, DistinguishesAlternatives) {
  const std::string pets =
      R"({"discriminator":{"propertyName":"kind","mapping":{"cat":"#/$defs/Cat","dog":"#/$defs/Dog"}},
    "oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"$defs":{
    "Cat":{"type":"object","title":"Cat","properties":{"kind":{"const":"cat","default":"cat","type":"string"},"lives":{"type":"integer"}},"required":["lives"]},
    "Dog":{"type":"object","title":"Dog","properties":{"kind":{"const":"dog","default":"dog","type":"string"},"name":{"type":"string"}}}}})";
  EXPECT_TRUE(is_valid(pets, R"({"kind":"cat","lives":9})"));
  EXPECT_TRUE(is_valid(pets, R"({"kind":"dog"})"));
  EXPECT_FALSE(is_valid(pets, R"({"lives":9})")) << "the discriminator is always written";
  EXPECT_FALSE(is_valid(pets, R"({"kind":"dog","lives":9})"));
  EXPECT_TRUE(is_valid(R"({"oneOf":[{"type":"string"},{"type":"null"}]})", "null"));
  EXPECT_TRUE(is_valid(R"({"oneOf":[{"enum":["a","b"]},{"type":"string","minLength":2}]})", R"("a")"));
  EXPECT_THAT(refusal_of(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"),
              AllOf(HasSubstr("#/oneOf"), HasSubstr("element 0 and 1")));
  EXPECT_THAT(refusal_of(R"({"oneOf":[{"enum":["aa","b"]},{"type":"string","minLength":2}]})"),
              HasSubstr("#/oneOf"));
  EXPECT_THAT(refusal_of(R"({"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}]})"),
              HasSubstr("discriminator"));
  std::string wrong = pets;
  wrong.replace(wrong.find("#/$defs/Dog"), 11, "#/$defs/Cat");
  EXPECT_THAT(refusal_of(wrong), HasSubstr("mapping/dog"));
  EXPECT_THAT(refusal_of(R"({"type":"object","discriminator":{"propertyName":"a"}})"),
              HasSubstr("discriminator"));
}

TEST(JsonSchema, CombinesSchemasThatMustHoldTogether) {
  const std::string both =
      R"({"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"integer","maximum":5}},"required":["b"]}],
    "$defs":{"base":{"type":"object","properties":{"a":{"type":"string"},"b":{"minimum":3}},"required":["a"]}}})";
  EXPECT_TRUE(is_valid(both, R"({"a":"x","b":4})"));
  for (const char* text :
       {R"({"a":"x"})", R"({"b":4})", R"({"a":"x","b":6})", R"({"a":"x","b":2})", R"({"a":"x","b":4.5})"})
    EXPECT_FALSE(is_valid(both, text)) << text;
  const std::string beside =
      R"({"$ref":"#/$defs/s","maxLength":2,"$defs":{"s":{"type":"string","pattern":"^a"}}})";
  EXPECT_TRUE(is_valid(beside, R"("ab")"));
  EXPECT_FALSE(is_valid(beside, R"("abc")"));
  EXPECT_FALSE(is_valid(beside, R"("b")"));
  EXPECT_TRUE(is_valid(R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}]})", R"("xbya")"));
  EXPECT_FALSE(is_valid(R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}]})", R"("xa")"));
  EXPECT_TRUE(is_valid(R"({"anyOf":[{"type":"string"},{"type":"integer"}],"type":["integer","null"]})", "1"));
  EXPECT_FALSE(
      is_valid(R"({"anyOf":[{"type":"string"},{"type":"integer"}],"type":["integer","null"]})", R"("a")"));
  // Other parts must not add properties to a closed object.
  EXPECT_THAT(
      refusal_of(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"required":["b"]}]})"),
      HasSubstr("no finite value"));
  EXPECT_THAT(refusal_of(R"({"allOf":[{"type":"string"},{"type":"integer"}]})"),
              HasSubstr("no finite value"));
}

TEST(JsonSchema, FollowsReferences) {
  const std::string tree =
      R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},
          "l":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"null"}]}},"required":["v","l"]}}})";
  EXPECT_TRUE(is_valid(tree, R"({"v":1,"l":{"v":2,"l":null}})"));
  EXPECT_FALSE(is_valid(tree, R"({"v":1,"l":{"v":2}})"));
  EXPECT_TRUE(is_valid(R"({"type":"array","items":{"$ref":"#"}})", "[[],[[]]]"));
  EXPECT_TRUE(is_valid(R"({"allOf":[{"$ref":"#/definitions/a"}],"definitions":{"a":{"const":1}}})", "1"));
}

TEST(JsonSchema, RefusesWhatItDoesNotSupportByName) {
  for (const char* keyword : {"not", "if", "patternProperties", "minProperties", "propertyNames", "contains",
                              "dependentRequired", "$dynamicRef", "unevaluatedItems"}) {
    const std::string schema =
        R"({"properties":{"a":{"type":"object",")" + std::string(keyword) + R"(":1}}})";
    EXPECT_THAT(refusal_of(schema), AllOf(HasSubstr(keyword), HasSubstr("#/properties/a"))) << keyword;
  }
  EXPECT_THAT(refusal_of(R"({"type":"array","uniqueItems":true})"), HasSubstr("uniqueItems"));
  EXPECT_THAT(refusal_of(R"({"type":"string","format":"iri"})"), HasSubstr("#/format"));
  EXPECT_THAT(refusal_of(R"({"type":"string","pattern":"a\\b"})"), HasSubstr("pattern"));
  EXPECT_THAT(refusal_of(R"({"$ref":"http://example.com"})"), HasSubstr("$ref"));
}

TEST(JsonSchema, RefusesInvalidSchemas) {
  for (const char* schema : {"",
                             "{",
                             "[]",
                             "1",
                             "\"a\"",
                             R"({"type":"text"})",
                             R"({"type":1})",
                             R"({"type":[]})",
                             R"({"enum":[]})",
                             R"({"enum":1})",
                             R"({"anyOf":[]})",
                             R"({"required":"a"})",
                             R"({"required":[1]})",
                             R"({"properties":[]})",
                             R"({"items":[{}]})",
                             R"({"minItems":-1})",
                             R"({"minLength":1.5})",
                             R"({"minLength":3,"maxLength":2})",
                             R"({"maxLength":1e99})",
                             R"({"pattern":1})",
                             R"({"$ref":1})",
                             R"({"$ref":"#/a"})",
                             R"({"$ref":"#a"})",
                             R"({"a":1,"a":2})",
                             R"({"prefixItems":1})",
                             R"({"prefixItems":[{},{}],"maxItems":1})"})
    EXPECT_THAT(refusal_of(schema), HasSubstr("json_schema: ")) << schema;
}

TEST(JsonSchema, RefusesWhatHasNoFiniteValue) {
  EXPECT_THAT(refusal_of("false"), HasSubstr("no finite value"));
  EXPECT_THAT(refusal_of(R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})"),
              HasSubstr("no finite value"));
  EXPECT_THAT(refusal_of(R"({"type":"string","pattern":"^a$","minLength":2})"), HasSubstr("no finite value"));
  EXPECT_THAT(refusal_of(R"({"$ref":"#"})"), HasSubstr("no finite value"));
  EXPECT_THAT(refusal_of(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"), HasSubstr("refers to itself"));
  EXPECT_EQ(refusal_of(R"({"properties":{"a":{"$ref":"#"}}})"), "accepted");
}

TEST(JsonSchema, HasLimits) {
  EXPECT_THAT(refusal_of(std::string(300'000, ' ')), HasSubstr("300000 bytes; limit: 262144"));
  std::string deep = "true";
  for (int i = 0; i < 40; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_EQ(refusal_of(deep), "accepted");
  for (int i = 0; i < 100; ++i) deep = R"({"items":)" + deep + "}";
  EXPECT_NE(refusal_of(deep), "accepted");
  // 128 nested schemas, each in the "properties" of the enclosing one.
  deep = "{}";
  for (int i = 0; i < 127; ++i) deep = R"({"properties":{"a":)" + deep + "}}";
  EXPECT_EQ(refusal_of(deep), "accepted");
  EXPECT_THAT(refusal_of(R"({"items":{"items":)" + deep + "}}"), HasSubstr("128 schemas"));
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 30; ++i)
    product += R"({"anyOf":[{"required":["a)" + std::to_string(i) + R"("]},{"required":["b)" +
               std::to_string(i) + R"("]}]},)";
  EXPECT_THAT(refusal_of(product + "true]}"), HasSubstr("json_schema: "));
  std::string chain = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 1000; ++i)
    chain += "\"" + std::to_string(i) + R"(":{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"},";
  EXPECT_THAT(refusal_of(chain + R"("1000":true}})"), HasSubstr("128 schemas"));
  EXPECT_THAT(refusal_of(R"({"type":"string","pattern":"^(ab|cd|e.)*$","maxLength":100000})"),
              HasSubstr("states"));
}

}  // namespace
}  // namespace serval::testing
