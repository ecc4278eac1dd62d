#include "models/gguf/gguf_file.h"

#include <random>

#include "fmt/format.h"

#include "tests/gguf/gguf_bytes.h"

namespace serval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GgufContents parsed(const std::string& file) {
  return parse_gguf(std::as_bytes(std::span(file)), "file");
}

GgufBytes small_file() {
  GgufBytes file;
  file.text("general.architecture", "llama").u32("n", 7).texts("words", {"", "two", "é"});
  file.tensor("a", kGgmlF32, {2, 3}, std::string(24, 'x')).tensor("b", kGgmlQ8_0, {32}, std::string(34, 'y'));
  return file;
}

TEST(Gguf, HasFieldsOfAllTypesAndTensorsInRowMajorOrder) {
  GgufBytes made = small_file();
  made.field("u8", GgufValueType::kU8, number<uint8_t>(200))
      .field("i8", GgufValueType::kI8, number<int8_t>(-3));
  made.field("u16", GgufValueType::kU16, number<uint16_t>(60000));
  made.field("i16", GgufValueType::kI16, number<int16_t>(-300));
  made.field("i32", GgufValueType::kI32, number<int32_t>(-70000));
  made.field("u64", GgufValueType::kU64, number<uint64_t>(INT64_MAX));
  made.field("i64", GgufValueType::kI64, number<int64_t>(-1));
  made.field("f64", GgufValueType::kF64, number(0.5)).f32("f32", 2.5F).boolean("yes", true);
  const std::string file = made.bytes();
  const auto [fields, tensors] = parsed(file);
  EXPECT_EQ(fields.text("general.architecture"), "llama");
  EXPECT_EQ(fields.integer("n", 0, 10), 7);
  EXPECT_EQ(fields.integer("u8", -1000, 1000), 200);
  EXPECT_EQ(fields.integer("i8", -1000, 1000), -3);
  EXPECT_EQ(fields.integer("u16", 0, 1 << 16), 60000);
  EXPECT_EQ(fields.integer("i16", -1000, 1000), -300);
  EXPECT_EQ(fields.integer("i32", -100000, 0), -70000);
  EXPECT_EQ(fields.integer("u64", 0, INT64_MAX), INT64_MAX);
  EXPECT_EQ(fields.integer("i64", -1, 0), -1);
  EXPECT_EQ(fields.number("f64"), 0.5);
  EXPECT_EQ(fields.number("f32"), 2.5);
  EXPECT_EQ(fields.number("i8"), -3);
  EXPECT_TRUE(fields.boolean_or("yes", false));
  EXPECT_TRUE(fields.boolean_or("absent", true));
  EXPECT_THAT(fields.texts("words"), ElementsAre("", "two", "é"));
  const GgufTensor& a = tensors.at("a");
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(a.type->name, "F32");
  EXPECT_EQ(a.bytes.size(), 24U);
  EXPECT_EQ(a.bytes.front(), std::byte{'x'});
  EXPECT_EQ(tensors.at("b").bytes.size(), 34U);
  EXPECT_EQ(tensors.at("b").bytes.back(), std::byte{'y'});
}

TEST(Gguf, HasTheSameContentsInVersion2) {
  const std::string file = small_file().bytes(2);
  EXPECT_EQ(parsed(file).tensors.size(), 2U);
}

TEST(Gguf, HoldsAnyAlignmentThatIsAPowerOfTwo) {
  GgufBytes made;
  made.u32("general.alignment", 8).entry("a", kGgmlF32, {1}, 8);
  std::string file = made.bytes();
  file.resize((file.size() + 7) / 8 * 8 + 8);
  file += number(1.5F);
  EXPECT_EQ(parsed(file).tensors.at("a").bytes.size(), 4U);
  for (const uint32_t alignment : {0U, 24U, 1U << 21}) {
    EXPECT_THAT(gguf_refusal(GgufBytes().u32("general.alignment", alignment).bytes()),
                HasSubstr(fmt::format("file: general.alignment: found {}, expected ", alignment)));
  }
}

TEST(Gguf, RefusesAnotherMagicNumberOrVersion) {
  std::string file = small_file().bytes();
  file[3] = 'X';
  EXPECT_EQ(gguf_refusal(file), "file: magic number: found \"GGUX\", expected \"GGUF\"");
  EXPECT_EQ(gguf_refusal(small_file().bytes(1)), "file: version: found 1; supported: 2 and 3");
  EXPECT_EQ(gguf_refusal(small_file().bytes(4)), "file: version: found 4; supported: 2 and 3");
  EXPECT_EQ(gguf_refusal(small_file().bytes(0x03000000)),
            "file: version: a big-endian file; supported: little-endian ones");
}

TEST(Gguf, RefusesEveryTruncatedFile) {
  const std::string file = small_file().bytes();
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_THAT(gguf_refusal(file.substr(0, size)), HasSubstr("file: ")) << size;
}

// Memory must not be allocated for the claimed sizes: they exceed any memory.
TEST(Gguf, RefusesCountsAndLengthsThatTheFileCannotHold) {
  const std::string begin = "GGUF" + number<uint32_t>(3);
  const std::string no_tensors = begin + number<uint64_t>(0), one_field = no_tensors + number<uint64_t>(1);
  constexpr uint64_t kHuge = uint64_t{1} << 63;
  EXPECT_EQ(gguf_refusal(begin + number(kHuge) + number<uint64_t>(0)),
            "file: number of tensors: found 9223372036854775808; limit: 65536");
  EXPECT_EQ(gguf_refusal(begin + number<uint64_t>(60000) + number<uint64_t>(0)),
            "file: number of tensors: found 60000, but only 8 bytes are left (truncated?)");
  EXPECT_EQ(gguf_refusal(no_tensors + number(UINT64_MAX)),
            "file: number of metadata fields: found 18446744073709551615; limit: 65536");
  EXPECT_EQ(gguf_refusal(one_field + number(kHuge) + std::string(20, 'k')),
            "file: metadata field 0: a name of 9223372036854775808 bytes; limit: 65535");
  const std::string key = one_field + gguf_string("key");
  EXPECT_EQ(gguf_refusal(key + number<uint32_t>(8) + number(kHuge) + "text"),
            "file: \"key\": needs 9223372036854775808 bytes, but only 4 are left (truncated?)");
  EXPECT_EQ(gguf_refusal(key + number<uint32_t>(9) + number<uint32_t>(5) + number(kHuge) + "1234"),
            "file: \"key\": 9223372036854775808 elements, after 0 of other arrays; limit: 33554432 together");
  EXPECT_EQ(gguf_refusal(key + number<uint32_t>(9) + number<uint32_t>(5) + number<uint64_t>(1000) + "1234"),
            "file: \"key\": 1000 elements of 4 bytes, but only 4 bytes are left (truncated?)");
  EXPECT_EQ(gguf_refusal(key + number<uint32_t>(9) + number<uint32_t>(8) + number<uint64_t>(2) +
                         number<uint64_t>(0)),
            "file: \"key\": needs 8 bytes, but only 0 are left (truncated?)");
}

// A sparse file could hold this count: each string takes eight bytes, each boolean one.
TEST(Gguf, BoundsTheElementsOfAllArraysBeforeItLooksAtThem) {
  const uint64_t most = GgufLimits::kMaxElements;
  for (const GgufValueType type : {GgufValueType::kString, GgufValueType::kBool, GgufValueType::kI8}) {
    EXPECT_EQ(gguf_refusal(GgufBytes().array("key", type, most + 1, "").bytes()),
              "file: \"key\": 33554433 elements, after 0 of other arrays; limit: 33554432 together");
  }
  GgufBytes two;
  two.array("first", GgufValueType::kU8, 2, "xx").array("second", GgufValueType::kBool, most - 1, "");
  EXPECT_EQ(gguf_refusal(two.bytes()),
            "file: \"second\": 33554431 elements, after 2 of other arrays; limit: 33554432 together");
}

TEST(Gguf, RefusesTypesOfValuesThatTheFormatLacks) {
  EXPECT_EQ(gguf_refusal(GgufBytes().field("k", static_cast<GgufValueType>(13), number(1)).bytes()),
            "file: \"k\": found the type 13, the format has 0 to 12");
  EXPECT_EQ(gguf_refusal(GgufBytes().array("k", GgufValueType::kArray, 1, std::string(12, '\0')).bytes()),
            "file: \"k\": an array of arrays is not supported");
  EXPECT_EQ(gguf_refusal(GgufBytes().field("k", GgufValueType::kBool, "\2").bytes()),
            "file: \"k\": found a value that is neither 0 (false) nor 1 (true)");
}

TEST(Gguf, RefusesDuplicateNames) {
  EXPECT_EQ(gguf_refusal(GgufBytes().u32("k", 1).u32("k", 1).bytes()), "file: \"k\": appears twice");
  GgufBytes file;
  file.tensor("t", kGgmlF32, {8}, std::string(32, 'x')).tensor("t", kGgmlF32, {8}, std::string(32, 'x'));
  EXPECT_EQ(gguf_refusal(file.bytes()), "file: tensor \"t\": appears twice");
}

// A file with 32 bytes of data and an entry "t" with this type, shape and offset.
std::string file_with(uint32_t type, const std::vector<uint64_t>& shape, uint64_t offset) {
  GgufBytes file;
  return file.tensor("data", kGgmlF32, {8}, std::string(32, 'x')).entry("t", type, shape, offset).bytes();
}

TEST(Gguf, RefusesTensorsByName) {
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {}, 0)), "file: tensor \"t\": 0 dimensions; limit: 1 to 4");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {1, 1, 1, 1, 1}, 0)),
            "file: tensor \"t\": 5 dimensions; limit: 1 to 4");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {0}, 0)),
            "file: tensor \"t\": a dimension of 0; limit: 1 to 2^63 - 1");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {uint64_t{1} << 40, uint64_t{1} << 40}, 0)),
            "file: tensor \"t\": more than 2^63 bytes");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlQ8_0, {33}, 0)),
            "file: tensor \"t\": rows of 33 elements, Q8_0 has blocks of 32");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {1}, 4)),
            "file: tensor \"t\": offset 4 is not a multiple of the alignment 32");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {1}, uint64_t{1} << 63)),
            "file: tensor \"t\": 4 bytes at offset 9223372036854775808, the file holds 32 bytes of data "
            "(truncated?)");
  EXPECT_EQ(gguf_refusal(file_with(kGgmlF32, {9}, 32)),
            "file: tensor \"t\": 36 bytes at offset 32, the file holds 32 bytes of data (truncated?)");
  EXPECT_THAT(gguf_refusal(file_with(kGgmlF32, {4}, 0)), HasSubstr("overlaps another tensor by "));
}

TEST(Gguf, NamesTheTypesThatItDoesNotRead) {
  constexpr const char* kKnown = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";
  for (const auto& [id, name] :
       {std::pair(23U, "IQ4_XS"), {34U, "TQ1_0"}, {39U, "MXFP4"}, {4U, "4"}, {1000U, "1000"}}) {
    EXPECT_EQ(gguf_refusal(file_with(id, {32}, 32)),
              fmt::format("file: tensor \"t\": type {} is not supported; supported: {}", name, kKnown));
  }
}

TEST(GgufFields, NameTheFieldAndWhatIsWrongWithIt) {
  const std::string file =
      GgufBytes().u32("n", 7).f32("x", 1e30F).text("word", "w").texts("list", {"a"}).bytes();
  const auto found = parsed(file);
  const GgufFields& fields = found.fields;
  const auto refusal = [](const auto& action) { return error_of(action); };
  EXPECT_EQ(refusal([&] { fields.text("absent"); }), "file: absent: missing");
  EXPECT_EQ(refusal([&] { fields.integer("n", 8, 9); }), "file: n: found 7, expected an integer from 8 to 9");
  EXPECT_EQ(refusal([&] { fields.integer("x", 8, 9); }), "file: x: expected an integer from 8 to 9");
  EXPECT_EQ(refusal([&] { fields.integer("list", 8, 9); }),
            "file: list: found an array of 1 elements, expected one value");
  EXPECT_EQ(refusal([&] { fields.text("n"); }), "file: n: found a number, expected a string");
  EXPECT_EQ(refusal([&] { fields.texts("word"); }), "file: word: found one value, expected an array");
  EXPECT_EQ(refusal([&] { fields.integers("list"); }),
            "file: list: expected an array of integers below 2^63");
  EXPECT_EQ(refusal([&] { fields.floats("list"); }), "file: list: expected an array of fp32 numbers");
  EXPECT_EQ(refusal([&] { fields.number("word"); }), "file: word: expected a finite number");
  EXPECT_EQ(refusal([&] { fields.boolean_or("n", true); }), "file: n: expected true or false");
}

TEST(Gguf, ReadsOrRefusesMutantsWithOneLine) {
  const std::string file = small_file().bytes();
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string mutant = file;
    for (uint32_t n = random() % 4 + 1; n > 0; --n)
      mutant[random() % mutant.size()] = static_cast<char>(random());
    try {
      for (const auto& [name, tensor] : parsed(mutant).tensors)
        ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(),
                  std::as_bytes(std::span(mutant)).data() + mutant.size());
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kRuntime);
      ASSERT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace serval
