#include "profiler/chrome/gzip.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/text_pieces.h"
#include "vm/base/error.h"

namespace serval {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLimit = 1 << 24;

std::string gunzip(const TextPieces& bytes, uint64_t limit = kLimit) {
  Gunzip data(bytes, limit, "a.gz");
  std::string text;
  for (std::string_view piece = data.next(); !piece.empty(); piece = data.next()) text += piece;
  EXPECT_EQ(data.next(), "") << "and nothing more";
  return text;
}

std::string error_of(std::string_view bytes, uint64_t limit = kLimit) {
  try {
    gunzip(one_piece(bytes), limit);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string some_text() {
  std::string text;
  for (uint64_t i = 0; i < 400'000; ++i) text += std::to_string(i * 7919 % 1000003);
  return text;
}

TEST(Gzip, GivesBackWhatWentIn) {
  for (const std::string& text : {std::string(), std::string("x"), some_text()}) {
    const std::string packed = gzip(text);
    EXPECT_TRUE(is_gzip(packed));
    EXPECT_EQ(gunzip(one_piece(packed)), text);
  }
  EXPECT_FALSE(is_gzip("{\"traceEvents\":[]}"));
}

TEST(Gzip, GivesPieceByPieceWhatItGivesAtOnce) {
  const std::string text = some_text();
  for (const size_t bytes : {size_t{50'000}, text.size()}) {
    std::string packed;
    Gzip packing([&](std::string_view piece) { packed += piece; });
    const TextPieces pieces = testing::pieces_of(text, bytes);
    for (std::string_view piece = pieces(); !piece.empty(); piece = pieces()) packing.write(piece);
    packing.finish();
    EXPECT_EQ(gunzip(testing::pieces_of(packed, bytes / 10'000)), text) << bytes;
  }
}

TEST(Gzip, DataThatEndsEarlyIsAnError) {
  const std::string packed = gzip(some_text());
  for (size_t length = 2; length < packed.size(); length += 1 + packed.size() / 50)
    EXPECT_EQ(error_of(packed.substr(0, length)), "a.gz: gzip: the data ends early") << length;
}

TEST(Gzip, DamagedDataIsAnError) {
  std::string packed = gzip(some_text());
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_THAT(error_of(packed), HasSubstr("a.gz: gzip: the data"));
  EXPECT_EQ(error_of(gzip("abc") + "tail"), "a.gz: gzip: the file continues after the compressed data");
}

TEST(Gzip, AFileThatGrowsBeyondTheLimitIsAnError) {
  const std::string bomb = gzip(std::string(1 << 22, '0'));
  EXPECT_LT(bomb.size(), 10'000U);
  EXPECT_THAT(error_of(bomb, 1 << 20), HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace serval
