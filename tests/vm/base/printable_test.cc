#include "vm/base/printable.h"

#include <string>

#include "gtest/gtest.h"

namespace serval {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "plain", "Grüße, 世界 👩", "\"quotes\" and \\backslashes\\"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatBreaksOrReordersALine) {
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("user\u202Egnp.exe"), "user\\u202egnp.exe");
  EXPECT_EQ(printable("\u2028\u2066\u200B\uFEFF\u0085"), "\\u2028\\u2066\\u200b\\ufeff\\u0085");
  EXPECT_EQ(printable("\U000E0041"), "\\ue0041");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "longer than it has to be";
}

}  // namespace
}  // namespace serval
