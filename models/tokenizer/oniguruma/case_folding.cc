#include "models/tokenizer/oniguruma/case_folding.h"

#include <algorithm>
#include <string_view>

namespace serval::oniguruma {
namespace {

struct Range {
  std::uint32_t first, last;
};

// Ranges of characters whose case folding is one character and that occur in no folding of several characters
// (F in Unicode's CaseFolding.txt) except those of kPairs: ASCII, Latin, Cyrillic, punctuation, kana and Han.
constexpr Range kSimple[] = {{0, 0xDE},        {0xE0, 0x12F},    {0x132, 0x148},   {0x14A, 0x17E},
                             {0x400, 0x481},   {0x48A, 0x52F},   {0x2010, 0x2027}, {0x2030, 0x205E},
                             {0x3000, 0x303F}, {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FFF}};

// Pairs of ASCII letters that are the folding of one character: ß, ﬀ, ﬁ, ﬂ, ﬆ.
constexpr std::string_view kPairs[] = {"ss", "ff", "fi", "fl", "st"};
constexpr std::string_view kJoinable = "sfilt";

char small_letter(std::uint32_t c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c >= 'a' && c <= 'z' ? static_cast<char>(c) : '\0';
}

}  // namespace

void CaseFolding::range(std::size_t at, std::uint32_t first, std::uint32_t last) const {
  const auto holds = [&](const Range& range) { return range.first <= first && last <= range.last; };
  if (std::none_of(std::begin(kSimple), std::end(kSimple), holds))
    cursor_->refuse(at, "this character under (?i) is not supported");
}

void CaseFolding::literal(std::size_t at, std::uint32_t character) {
  range(at, character, character);
  const char letter = small_letter(character);
  for (const std::string_view pair : kPairs) {
    if (pair[0] == previous_ && pair[1] == letter)
      cursor_->refuse(at, "ss, ff, fi, fl and st under (?i) are not supported");
  }
  previous_ = letter;
  if (letter != '\0' && kJoinable.find(letter) != kJoinable.npos) ++joinable_;
}

void CaseFolding::repetition(std::size_t at, int joinable_before) const {
  if (joinable_ != joinable_before)
    cursor_->refuse(at, "repeating the letters s, f, i, l and t under (?i) is not supported");
}

}  // namespace serval::oniguruma
