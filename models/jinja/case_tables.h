// What Python's str knows about letters and digits of all scripts. case_tables.cc is written by
// tools/case_tables.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace serval::jinja {

struct CodeRange {
  std::uint32_t first, last;
};

// Every `step`th code point from `first` to `last` becomes the one that is `difference` away.
struct CaseRun {
  std::uint32_t first, last, step;
  std::int32_t difference;
};

// A character that becomes several; 0: no more.
struct CaseSpecial {
  std::uint32_t code;
  std::uint32_t to[3];
};

// As str.isalpha() and so on. kIgnorable: Case_Ignorable, which may stand inside a word.
enum class CharacterKind : std::uint8_t {
  kAlpha,
  kDecimal,
  kDigit,
  kNumeric,
  kLower,
  kUpper,
  kTitle,
  kIgnorable
};
std::span<const CodeRange> code_ranges(CharacterKind kind);  // in order

enum class CaseChange : std::uint8_t { kUpper, kLower, kTitle };
struct CaseTable {
  std::span<const CaseRun> runs;  // by their first
  std::span<const CaseSpecial> specials;
};
CaseTable case_table(CaseChange change);

}  // namespace serval::jinja
