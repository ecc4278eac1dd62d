#include "models/tokenizer/nfc.h"

#include <gtest/gtest.h>

#include "models/tokenizer/nfc_tables.h"
#include "models/tokenizer/unicode.h"

namespace serval {
namespace {

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(to_nfc(text, &storage));
}

std::string characters(std::initializer_list<std::uint32_t> codes) {
  std::string text;
  for (const std::uint32_t code : codes) append_utf8(code, &text);
  return text;
}

TEST(Nfc, ComposesLettersAndMarks) {
  EXPECT_EQ(nfc("e\u0301"), "\u00e9");
  EXPECT_EQ(nfc("a\u0323\u0302"), "\u1ead");  // two marks in canonical order
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1ead");  // the same marks in the other order
  EXPECT_EQ(nfc("\u00c5 \u212b A\u030a"), "\u00c5 \u00c5 \u00c5");
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");
  EXPECT_EQ(nfc("a\u0315\u0301"), "\u00e1\u0315");  // a mark of another class does not block
  EXPECT_EQ(nfc("a\u0300\u0301"), "\u00e0\u0301");  // a mark of the same class blocks
}

TEST(Nfc, LeavesExcludedCompositionsApart) {
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");
  EXPECT_EQ(nfc("\ufb1d"), "\u05d9\u05b4");
}

TEST(Nfc, ComposesHangulByRule) {
  EXPECT_EQ(nfc("\u1100\u1161"), "\uac00");
  EXPECT_EQ(nfc("\u1100\u1161\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(nfc("\uac01\u11a8"), "\uac01\u11a8");
  EXPECT_EQ(nfc("\ud7a3"), "\ud7a3");
}

TEST(Nfc, ReturnsAsciiAndLatinTextItself) {
  const std::string text = "plain, caf\u00e9";
  std::string storage;
  EXPECT_EQ(to_nfc(text, &storage).data(), text.data());
}

TEST(Nfc, ComposesEveryDecompositionUnlessItIsExcluded) {
  for (const CanonicalDecomposition& each : canonical_decompositions()) {
    const std::string written =
        each.second == 0 ? characters({each.first}) : characters({each.first, each.second});
    EXPECT_EQ(nfc(written), nfc(characters({each.code}))) << std::hex << each.code;
    if (each.composes) {
      EXPECT_EQ(nfc(written), characters({each.code})) << std::hex << each.code;
    }
    EXPECT_EQ(nfc(nfc(written)), nfc(written)) << std::hex << each.code;
  }
}

}  // namespace
}  // namespace serval
