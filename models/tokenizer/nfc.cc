#include "models/tokenizer/nfc.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "models/tokenizer/nfc_tables.h"
#include "models/tokenizer/unicode.h"
#include "models/tokenizer/utf8.h"

namespace serval {
namespace {

// Text without characters from U+0300 on (first byte 0xCC) is already in NFC.
constexpr unsigned char kFirstChangingByte = 0xCC;

// Hangul syllables are composed by formula (The Unicode Standard, section 3.12).
constexpr std::uint32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr std::uint32_t kLeads = 19, kVowels = 21, kTails = 28;
constexpr std::uint32_t kSyllables = kLeads * kVowels * kTails;

constexpr bool is_in(std::uint32_t code, std::uint32_t first, std::uint32_t count) {
  return code >= first && code - first < count;
}

struct Character {
  std::uint32_t code;
  std::uint8_t combining_class;
};
using Characters = std::vector<Character>;

std::uint8_t combining_class(std::uint32_t code) {
  const auto ranges = combining_ranges();
  const auto range = std::ranges::lower_bound(ranges, code, {}, &CombiningRange::last);
  return range != ranges.end() && range->first <= code ? range->combining_class : 0;
}

void append_decomposed(std::uint32_t code, Characters& out) {
  if (is_in(code, kSyllable, kSyllables)) {
    const std::uint32_t index = code - kSyllable, tail = index % kTails;
    out.push_back({kLead + index / (kVowels * kTails), 0});
    out.push_back({kVowel + index / kTails % kVowels, 0});
    if (tail != 0) out.push_back({kTail + tail, 0});
    return;
  }
  const auto all = canonical_decompositions();
  const auto found = std::ranges::lower_bound(all, code, {}, &CanonicalDecomposition::code);
  if (found == all.end() || found->code != code) return out.push_back({code, combining_class(code)});
  append_decomposed(found->first, out);  // recurses a few levels: the table has no cycle
  if (found->second != 0) out.push_back({found->second, combining_class(found->second)});
}

Characters decomposed(std::string_view text) {
  Characters out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = utf8_first(text).bytes;
    append_decomposed(code_point(text.substr(0, bytes)), out);
    text.remove_prefix(bytes);
  }
  return out;
}

// Sorts each run of combining characters by class.
void reorder(Characters& text) {
  for (auto begin = text.begin(); begin != text.end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, text.end(), [](const Character& c) { return c.combining_class == 0; });
    std::ranges::stable_sort(begin, end, {}, &Character::combining_class);
    begin = end;
  }
}

// The composition of two characters; 0 if they do not compose.
std::uint32_t composed(std::uint32_t first, std::uint32_t second) {
  if (is_in(first, kLead, kLeads) && is_in(second, kVowel, kVowels))
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  const bool has_no_tail = is_in(first, kSyllable, kSyllables) && (first - kSyllable) % kTails == 0;
  if (has_no_tail && is_in(second, kTail + 1, kTails - 1)) return first + (second - kTail);
  using Pair = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // first, second, code
  static const std::vector<Pair> pairs = [] {
    std::vector<Pair> all;
    for (const CanonicalDecomposition& each : canonical_decompositions())
      if (each.composes) all.emplace_back(each.first, each.second, each.code);
    std::ranges::sort(all);
    return all;
  }();
  const auto found = std::ranges::lower_bound(pairs, Pair(first, second, 0));
  if (found == pairs.end() || std::get<0>(*found) != first || std::get<1>(*found) != second) return 0;
  return std::get<2>(*found);
}

// Composes a character with the last starter unless a character between them blocks it: one of class 0, or of
// the same or a higher class.
void compose(Characters& text) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::size_t starter = kNone, size = 0;
  for (const Character character : Characters(text)) {
    const bool adjacent = starter != kNone && starter + 1 == size;
    const std::uint8_t before = adjacent || size == 0 ? 0 : text[size - 1].combining_class;
    const bool blocked = !adjacent && before >= character.combining_class;
    const std::uint32_t both = starter == kNone || blocked ? 0 : composed(text[starter].code, character.code);
    if (both != 0) {
      text[starter].code = both;
      continue;
    }
    if (character.combining_class == 0) starter = size;
    text[size++] = character;
  }
  text.resize(size);
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string* storage) {
  const auto may_change = [](char c) { return static_cast<unsigned char>(c) >= kFirstChangingByte; };
  if (std::ranges::none_of(text, may_change)) return text;
  Characters characters = decomposed(text);
  reorder(characters);
  compose(characters);
  storage->clear();
  for (const Character& character : characters) append_utf8(character.code, storage);
  return *storage;
}

}  // namespace serval
