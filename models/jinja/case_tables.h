// Unicode data for the case and character classes of Python's str. tools/case_tables.py generates
// case_tables.cc.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace serval::jinja {

struct CodeRange {
  std::uint32_t first, last;
};

// Maps every `step`th code point c from `first` to `last` to c + difference.
struct CaseRun {
  std::uint32_t first, last, step;
  std::int32_t difference;
};

// Maps a character to several; unused entries are 0.
struct CaseSpecial {
  std::uint32_t code;
  std::uint32_t to[3];
};

// Classes of str.isalpha() and so on. kIgnorable is Case_Ignorable: characters that do not end a word.
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
std::span<const CodeRange> code_ranges(CharacterKind kind);  // sorted

enum class CaseChange : std::uint8_t { kUpper, kLower, kTitle };
struct CaseTable {
  std::span<const CaseRun> runs;  // sorted by `first`
  std::span<const CaseSpecial> specials;
};
CaseTable case_table(CaseChange change);

}  // namespace serval::jinja
