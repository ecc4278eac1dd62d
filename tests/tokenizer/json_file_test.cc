#include "vm/base/json_file.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/checkpoint/test_files.h"
#include "tests/text_pieces.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::pieces_of;
using testing::without_end;

std::string error_of(const std::string& text) {
  return tiny::error_of([&] { parse_json_text(text, "file.json"); });
}

TEST(JsonFile, ReadsWhatTheLibraryReads) {
  for (const char* text : {R"({"a":[1,{"b":null,"c":[]},"x",1.5,-3,true],"z":{},"":false})", "3", "\"é\"",
                           "[]", "null", "18446744073709551615", R"(["\u0000\ud83d\ude00"])"}) {
    EXPECT_EQ(parse_json_text(text, "file.json"), json::parse(text)) << text;
  }
}

json parse_file(const std::string& text) {
  const TempDir dir;
  dir.write("file.json", text);
  return parse_json_file(dir / "file.json", 1 << 20);
}

// Python writes these values, and transformers reads them.
TEST(JsonFile, ReadsNaNAndInfinityInFiles) {
  const json tree = parse_file(R"({"a":NaN,"b":[Infinity, -Infinity],"NaN":"Infinity \" NaN","c" : 0.0})");
  EXPECT_TRUE(std::isnan(tree["a"].get<double>()));
  EXPECT_EQ(tree["b"][0].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(tree["b"][1].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(tree["NaN"], "Infinity \" NaN");
  EXPECT_EQ(tree["c"], 0.0);
  EXPECT_EQ(parse_file("0E0"), 0.0);
}

TEST(JsonFile, ReadsNaNAndInfinityOnlyAsWholeValues) {
  for (const char* text :
       {"1NaN", "NaN5", "[NaNa]", "nan", "Inf", "+Infinity", "[-]", "{NaN:1}", "1.Infinity"}) {
    const std::string line = tiny::error_of([&] { parse_file(text); });
    EXPECT_THAT(line, HasSubstr("not JSON")) << text;
  }
}

TEST(JsonFile, RefusesNaNAndInfinityInTextThatIsNotAFile) {
  EXPECT_THAT(error_of("NaN"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("[Infinity]"), HasSubstr("not JSON"));
}

TEST(JsonFile, RefusesAKeyTwiceInOneObjectAndSaysWhere) {
  EXPECT_EQ(error_of(R"({"a":{"a":1},"a":2})"), "file.json: byte 16: key \"a\" appears twice in one object");
  EXPECT_EQ(error_of("{\"\\u000a\":1,\"\\n\":2}"),
            "file.json: byte 16: key \"\\n\" appears twice in one object");
  EXPECT_THAT(error_of("{\"" + std::string(200, 'k') + "\":1,\"" + std::string(200, 'k') + "\":1}"),
              HasSubstr(std::string(80, 'k') + "\"… appears twice"));
}

TEST(JsonFile, RefusesDepthAndCountAboveTheLimits) {
  EXPECT_EQ(error_of(std::string(1000, '[')), "file.json: byte 65: nested deeper than 64");
  std::string many = "[0";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) many += ",0";
  EXPECT_THAT(error_of(many + "]"), HasSubstr("more than 4194304 values"));
}

using Keys = std::vector<std::string>;

bool take_nothing(const Keys&, const json&) {
  return false;
}

TEST(JsonFile, PassesTheElementsOfLongListsToACallback) {
  std::vector<std::string> taken;
  const auto take = [&](const Keys& keys, const json& element) {
    if (keys != Keys{"long"} && keys != Keys{"in", "list"}) return false;
    taken.push_back(element.dump());
    return true;
  };
  const json rest = parse_json_elements(
      one_piece(R"({"long":[1,{"a":[2]},[]],"short":[1,[2]],"in":{"x":4,"list":[3,[4]],"long":[3]},)"
                R"("deep":[{"in":{"list":[5]}}]})"),
      "file.json", take);
  EXPECT_THAT(taken, ::testing::ElementsAre("1", R"({"a":[2]})", "[]", "3", "[4]"));
  EXPECT_EQ(rest, json::parse(R"({"long":[],"short":[1,[2]],"in":{"x":4,"list":[],"long":[3]},)"
                              R"("deep":[{"in":{"list":[5]}}]})"));
}

TEST(JsonFile, ElementsPassedToACallbackDoNotCount) {
  std::string many = "{\"in\":{\"long\":[[0]";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) many += ",[]";
  many += "]}}";
  std::size_t taken = 0;
  parse_json_elements(one_piece(many), "file.json", [&](const Keys&, const json&) { return ++taken > 0; });
  EXPECT_EQ(taken, kMaxJsonValues + 1);
  EXPECT_THAT(tiny::error_of([&] { parse_json_elements(one_piece(many), "file.json", take_nothing); }),
              HasSubstr("more than 4194304 values"));
}

TEST(JsonFile, ReadsATextInPiecesAsInOne) {
  const std::string text = R"({"a":[1.5,"\ud83d\ude00",{"b":null}],"c":-12345})";
  for (std::size_t bytes = 1; bytes < text.size(); ++bytes)
    EXPECT_EQ(parse_json_elements(pieces_of(text, bytes), "file.json", take_nothing), json::parse(text));
  EXPECT_EQ(tiny::error_of([] {
              parse_json_elements(pieces_of(std::string_view("{\"a\":\0}", 7), 4), "file.json", take_nothing);
            }),
            "file.json: byte 6: a zero byte");
}

TEST(JsonFile, ATextWithoutEndIsRefusedBeforeItFillsMemory) {
  const std::string letters(1 << 20, 'a'), members = "\"" + letters + "\",";
  std::size_t pieces = 0;
  const auto error = [&](std::string_view first, std::string_view next) {
    return tiny::error_of(
        [&] { parse_json_elements(without_end(first, next, pieces), "file.json", take_nothing); });
  };
  EXPECT_EQ(error("[\"", letters), "file.json: byte 16777218: a value of more than 16777216 bytes");
  EXPECT_LE(pieces, 20U);
  EXPECT_THAT(error("[1", std::string(1 << 20, ' ')), HasSubstr("a value of more than 16777216 bytes"));
  EXPECT_THAT(error("{\"a\":[", members), HasSubstr("texts of more than 134217728 bytes"));
  EXPECT_LE(pieces, 130U);
}

TEST(JsonFile, RefusesTextAfterAZeroByte) {
  EXPECT_EQ(error_of(std::string("{}\0garbage", 10)), "file.json: byte 3: a zero byte");
}

TEST(JsonFile, SaysWhereTextIsNotJson) {
  EXPECT_THAT(error_of(""), HasSubstr("file.json: byte 1: not JSON: "));
  EXPECT_THAT(error_of("[1,2"), HasSubstr("file.json: byte 5: not JSON: "));
  EXPECT_THAT(error_of("[1] x"), HasSubstr("file.json: byte 5: not JSON: "));
  EXPECT_THAT(error_of("[1e999]"), HasSubstr("number overflow"));
  EXPECT_THAT(error_of("[\"a\nb\"]"), HasSubstr("file.json: byte 4: not JSON: "));
  EXPECT_THAT(error_of("[\"\xFF\"]"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(error_of("[\"\\ud800\"]"), HasSubstr("surrogate"));
}

TEST(JsonFile, ReadsOnlyRegularFilesWithinTheLimit) {
  EXPECT_EQ(tiny::error_of([] { parse_json_file("/nonexistent.json", 10); }),
            "/nonexistent.json: no such file");
  EXPECT_EQ(tiny::error_of([] { parse_json_file("/dev/zero", 10); }), "/dev/zero: not a regular file");
  EXPECT_EQ(tiny::error_of([] { parse_json_file("/", 10); }), "/: not a regular file");
}

}  // namespace
}  // namespace serval
