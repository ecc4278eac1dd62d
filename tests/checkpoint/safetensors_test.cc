#include "models/checkpoint/safetensors.h"

#include <span>

#include "fmt/format.h"

#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

using testing::HasSubstr;

TensorMap parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "file");
}

std::string error_in(const std::string& header, const std::string& data = "") {
  return error_of([&] { parse(safetensors_file(header, data)); });
}

// The error for a file with four bytes of data and one tensor "a" with these fields.
std::string error_in_entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return error_in(
      fmt::format(R"({{"a": {{"dtype": {}, "shape": {}, "data_offsets": {}}}}})", dtype, shape, offsets),
      "abcd");
}

TEST(Safetensors, ReadsNamesTypesShapesAndBytes) {
  const std::string file = safetensors_file({{"b", "F32", {2, 1}, "12345678"}, {"a", "BF16", {3}, "abcdef"}});
  const TensorMap tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2);
  const TensorView& b = tensors.at("b");
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, StoredType::kF32);
  EXPECT_THAT(b.shape, testing::ElementsAre(2, 1));
  EXPECT_EQ(std::memcmp(b.bytes.data(), "12345678", b.bytes.size()), 0);
  EXPECT_EQ(tensors.at("a").bytes.size(), 6);
}

TEST(Safetensors, ReadsScalarsEmptyTensorsAndMetadata) {
  const std::string file = safetensors_file(
      R"({"__metadata__": {"format": "pt"},
          "empty": {"dtype": "F32", "shape": [0, 5], "data_offsets": [0, 0]},
          "scalar": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
          "also empty": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]}}   )",
      "12345678");
  const TensorMap tensors = parse(file);
  EXPECT_EQ(tensors.size(), 3);
  EXPECT_TRUE(tensors.at("scalar").shape.empty());
  EXPECT_TRUE(tensors.at("empty").bytes.empty());
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(parse(safetensors_file("{}", "")).empty());
}

TEST(Safetensors, KnowsTheSizeOfEveryType) {
  for (const StoredType dtype : {StoredType::kBool, StoredType::kF8E4M3, StoredType::kF16, StoredType::kBF16,
                                 StoredType::kF32, StoredType::kF64}) {
    const std::string data(dtype_bytes(dtype), 'x');
    EXPECT_EQ(parse(safetensors_file({{"a", std::string(dtype_name(dtype)), {1}, data}})).at("a").dtype,
              dtype);
  }
}

TEST(Safetensors, RefusesAFileTooShortForALength) {
  EXPECT_EQ(error_of([] { parse(""); }), "file: 0 bytes, too short for a safetensors file");
  EXPECT_EQ(error_of([] { parse("1234567"); }), "file: 7 bytes, too short for a safetensors file");
}

TEST(Safetensors, RefusesAHeaderOver100Megabytes) {
  EXPECT_EQ(error_of([] { parse(bytes_of<uint64_t>({100'000'001}) + "{}"); }),
            "file: header length: found 100000001 bytes; limit: 100000000");
  EXPECT_THAT(error_of([] { parse(bytes_of<uint64_t>({UINT64_MAX}) + "{}"); }), HasSubstr("; limit: "));
}

TEST(Safetensors, RefusesAHeaderBeyondTheFile) {
  EXPECT_EQ(error_of([] { parse(bytes_of<uint64_t>({3}) + "{}"); }),
            "file: header length: found 3 bytes, but only 2 follow (truncated?)");
}

TEST(Safetensors, RefusesAHeaderThatIsNotAJsonObject) {
  EXPECT_THAT(error_in(""), HasSubstr("file: header: does not start with '{'"));
  EXPECT_THAT(error_in("[]"), HasSubstr("does not start with '{'"));
  EXPECT_THAT(error_in(" {}"), HasSubstr("does not start with '{'"));
  EXPECT_THAT(error_in("{"), HasSubstr("file: header: "));
  EXPECT_THAT(error_in("{} x"), HasSubstr("file: header: "));
  EXPECT_THAT(error_in(std::string("{}\0", 3)), HasSubstr("zero byte"));
  EXPECT_THAT(error_in("{\"\xFF\": 1}"), HasSubstr("file: header: "));
}

TEST(Safetensors, RefusesDuplicateKeys) {
  EXPECT_THAT(error_in(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                           "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                       "ab"),
              HasSubstr("\"a\""));
  EXPECT_THAT(error_in(R"({"a": {"dtype": "U8", "dtype": "I8", "shape": [1], "data_offsets": [0, 1]}})", "a"),
              HasSubstr("dtype"));
}

TEST(Safetensors, RefusesAnUnknownType) {
  EXPECT_EQ(error_in_entry("\"F13\"", "[1]", "[0, 4]"),
            "file: tensor \"a\": dtype: found \"F13\", which is not a known type");
  EXPECT_THAT(error_in_entry("7", "[1]", "[0, 4]"), HasSubstr("dtype: found 7"));
  EXPECT_THAT(error_in_entry("null", "[1]", "[0, 4]"), HasSubstr("dtype"));
}

TEST(Safetensors, RefusesBadShapes) {
  EXPECT_THAT(error_in_entry("\"U8\"", "[-4]", "[0, 4]"), HasSubstr("shape: found [-4]"));
  EXPECT_THAT(error_in_entry("\"U8\"", "[4.0]", "[0, 4]"), HasSubstr("shape: found [4.0]"));
  EXPECT_THAT(error_in_entry("\"U8\"", "[18446744073709551615]", "[0, 4]"), HasSubstr("shape: found"));
  EXPECT_THAT(error_in_entry("\"U8\"", "[18446744073709551616]", "[0, 4]"), HasSubstr("shape: found"));
  EXPECT_THAT(error_in_entry("\"U8\"", "4", "[0, 4]"), HasSubstr("shape: missing, or not an array"));
  EXPECT_THAT(error_in_entry("\"U8\"", "null", "[0, 4]"), HasSubstr("shape: missing, or not an array"));
}

TEST(Safetensors, RefusesTooManyDimensions) {
  EXPECT_EQ(error_in_entry("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0, 4]"),
            "file: tensor \"a\": shape: found 9 dimensions; limit: 8");
}

TEST(Safetensors, RefusesShapesWhoseProductOverflows) {
  EXPECT_THAT(error_in_entry("\"U8\"", "[4294967296, 4294967296]", "[0, 0]"),
              HasSubstr("takes more than 2^63"));
  EXPECT_THAT(error_in_entry("\"F32\"", "[4611686018427387905]", "[0, 4]"),
              HasSubstr("takes more than 2^63"));
}

TEST(Safetensors, RefusesBytesThatAreNotShapeTimesType) {
  EXPECT_EQ(error_in_entry("\"F32\"", "[2, 1]", "[0, 4]"),
            "file: tensor \"a\": data_offsets: found 4 bytes, but shape [2, 1] of F32 takes 8");
  EXPECT_THAT(error_in_entry("\"U8\"", "[0]", "[0, 4]"), HasSubstr("takes 0"));
}

TEST(Safetensors, RefusesOffsetsOutsideTheFile) {
  EXPECT_EQ(error_in_entry("\"U8\"", "[5]", "[0, 5]"),
            "file: tensor \"a\": data_offsets: found [0, 5], the file holds 4 bytes of data");
  EXPECT_THAT(error_in_entry("\"U8\"", "[1]", "[4, 3]"), HasSubstr("data_offsets: found [4, 3]"));
  EXPECT_THAT(error_in_entry("\"U8\"", "[1]", "[18446744073709551615, 18446744073709551615]"),
              HasSubstr("the file holds 4 bytes"));
}

TEST(Safetensors, RefusesOffsetsThatAreNotAPair) {
  for (const char* offsets : {"[0]", "[0, 2, 4]", "[-1, 4]", "[0, 4.0]", "[\"0\", 4]"})
    EXPECT_THAT(error_in_entry("\"U8\"", "[4]", offsets), HasSubstr("expected [begin, end]")) << offsets;
  EXPECT_THAT(error_in_entry("\"U8\"", "[4]", "{}"), HasSubstr("data_offsets: missing, or not an array"));
}

TEST(Safetensors, RefusesATruncatedFile) {
  std::string file = safetensors_file({{"a", "F32", {2}, "12345678"}});
  file.pop_back();
  EXPECT_THAT(error_of([&] { parse(file); }), HasSubstr("the file holds 7 bytes of data"));
}

TEST(Safetensors, RefusesOverlappingTensors) {
  EXPECT_EQ(error_in(R"({"a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                         "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
                     "abcd"),
            "file: tensor \"b\": data_offsets: overlaps another tensor by 1 bytes");
}

TEST(Safetensors, RefusesHoles) {
  EXPECT_EQ(error_in(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                         "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})",
                     "abcd"),
            "file: tensor \"b\": data_offsets: 1 bytes before it belong to no tensor");
  EXPECT_THAT(error_in_entry("\"U8\"", "[3]", "[1, 4]"), HasSubstr("1 bytes before it belong to no tensor"));
}

TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  EXPECT_EQ(error_in_entry("\"U8\"", "[3]", "[0, 3]"), "file: the last 1 bytes belong to no tensor");
  EXPECT_EQ(error_in("{}", "x"), "file: the last 1 bytes belong to no tensor");
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  EXPECT_THAT(error_in(R"({"__metadata__": {"step": 7}})"), HasSubstr("__metadata__: \"step\": found 7"));
  EXPECT_THAT(error_in(R"({"__metadata__": []})"), HasSubstr("__metadata__: expected an object of strings"));
}

TEST(Safetensors, RefusesEntriesThatAreNotObjects) {
  EXPECT_THAT(error_in(R"({"a": 7})"), HasSubstr("file: tensor \"a\": found 7, expected a JSON object"));
}

TEST(Safetensors, RefusesOverlongNames) {
  const std::string name(513, 'x');
  const std::string line =
      error_in("{\"" + name + R"(": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})");
  EXPECT_THAT(line, HasSubstr("a name of 513 bytes; limit: 512"));
  EXPECT_LT(line.size(), 200);
}

TEST(SafetensorsFile, MapsAFile) {
  const TempDir dir;
  dir.write("a.safetensors", safetensors_file({{"a", "U8", {4}, "abcd"}}));
  const SafetensorsFile file(dir / "a.safetensors");
  EXPECT_EQ(std::memcmp(file.tensors().at("a").bytes.data(), "abcd", 4), 0);
}

TEST(SafetensorsFile, ViewsOutliveMoves) {
  const TempDir dir;
  dir.write("a.safetensors", safetensors_file({{"a", "U8", {4}, "abcd"}}));
  SafetensorsFile first(dir / "a.safetensors");
  const TensorView& view = first.tensors().at("a");
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(&second.tensors().at("a"), &view);
  EXPECT_EQ(std::memcmp(view.bytes.data(), "abcd", 4), 0);
}

TEST(SafetensorsFile, NamesAFileThatCannotBeMapped) {
  const TempDir dir;
  EXPECT_EQ(error_of([&] { SafetensorsFile file(dir / "none"); }),
            (dir / "none").string() + ": No such file or directory");
  EXPECT_EQ(error_of([&] { SafetensorsFile file(dir.path()); }),
            dir.path().string() + ": not a regular file");
  dir.write("empty", "");
  EXPECT_EQ(error_of([&] { SafetensorsFile file(dir / "empty"); }),
            (dir / "empty").string() + ": 0 bytes, too short for a safetensors file");
}

}  // namespace
}  // namespace serval
