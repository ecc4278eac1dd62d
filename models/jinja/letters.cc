#include "models/jinja/letters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/jinja/case_tables.h"
#include "models/tokenizer/unicode.h"

namespace serval::jinja {
namespace {

constexpr std::uint32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

bool has_kind(CharacterKind kind, std::uint32_t code) {
  const auto ranges = code_ranges(kind);
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code,
                       [](std::uint32_t c, const CodeRange& range) { return c < range.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

bool is_cased(std::uint32_t code) {
  return has_kind(CharacterKind::kLower, code) || has_kind(CharacterKind::kUpper, code) ||
         has_kind(CharacterKind::kTitle, code);
}

void append_changed(std::uint32_t code, CaseChange change, std::string* out) {
  const CaseTable table = case_table(change);
  const auto special = std::ranges::find(table.specials, code, &CaseSpecial::code);
  if (special != table.specials.end()) {
    for (const std::uint32_t to : special->to)
      if (to != 0) append_utf8(to, out);
    return;
  }
  const auto after = std::upper_bound(table.runs.begin(), table.runs.end(), code,
                                      [](std::uint32_t c, const CaseRun& run) { return c < run.first; });
  if (after != table.runs.begin()) {
    const CaseRun& run = *std::prev(after);
    if (code <= run.last && (code - run.first) % run.step == 0)
      code = static_cast<std::uint32_t>(static_cast<std::int32_t>(code) + run.difference);
  }
  append_utf8(code, out);
}

std::vector<std::uint32_t> code_points_of(std::string_view text) {
  std::vector<std::uint32_t> codes;
  for (; !text.empty(); text.remove_prefix(first_character(text).size()))
    codes.push_back(code_point(first_character(text)));
  return codes;
}

// True if the sigma at `at` ends a word (Unicode's Final_Sigma).
bool ends_word(const std::vector<std::uint32_t>& codes, std::size_t at) {
  std::size_t before = at, after = at + 1;
  while (before > 0 && has_kind(CharacterKind::kIgnorable, codes[before - 1])) --before;
  if (before == 0 || !is_cased(codes[before - 1])) return false;
  while (after < codes.size() && has_kind(CharacterKind::kIgnorable, codes[after])) ++after;
  return after == codes.size() || !is_cased(codes[after]);
}

// Applies change_of(code, index) to each character. The result keeps the character's origin.
template <typename ChangeOf>
Text changed(Evaluation& evaluation, const Text& text, ChangeOf change_of) {
  evaluation.charge(text.size() * sizeof(std::uint32_t));
  const std::vector<std::uint32_t> codes = code_points_of(text.bytes());
  const auto at = text.boundaries();
  Text out;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const CaseChange change = change_of(codes[i], i);
    std::string bytes;
    if (codes[i] == kCapitalSigma && change == CaseChange::kLower && ends_word(codes, i)) {
      append_utf8(kFinalSigma, &bytes);
    } else {
      append_changed(codes[i], change, &bytes);
    }
    out.append(bytes, text.origin(at[i]));
  }
  return evaluation.checked(Value(std::move(out))).text();
}

// True if the text is not empty and each character has one of the kinds.
bool all_are(std::string_view text, std::initializer_list<CharacterKind> kinds) {
  const auto is = [&](std::uint32_t code) {
    return std::ranges::any_of(kinds, [code](CharacterKind kind) { return has_kind(kind, code); });
  };
  return !text.empty() && std::ranges::all_of(code_points_of(text), is);
}

// True if the text has a character of `kind` and none of `other` or of title case.
bool is_all(std::string_view text, CharacterKind kind, CharacterKind other) {
  bool found = false;
  for (const std::uint32_t code : code_points_of(text)) {
    if (has_kind(other, code) || has_kind(CharacterKind::kTitle, code)) return false;
    found = found || has_kind(kind, code);
  }
  return found;
}

}  // namespace

Text upper(Evaluation& evaluation, const Text& text) {
  return changed(evaluation, text, [](std::uint32_t, std::size_t) { return CaseChange::kUpper; });
}

Text lower(Evaluation& evaluation, const Text& text) {
  return changed(evaluation, text, [](std::uint32_t, std::size_t) { return CaseChange::kLower; });
}

Text capitalized(Evaluation& evaluation, const Text& text) {
  return changed(evaluation, text, [](std::uint32_t, std::size_t index) {
    return index == 0 ? CaseChange::kTitle : CaseChange::kLower;
  });
}

Text with_case_swapped(Evaluation& evaluation, const Text& text) {
  return changed(evaluation, text, [](std::uint32_t code, std::size_t) {
    return has_kind(CharacterKind::kUpper, code) ? CaseChange::kLower : CaseChange::kUpper;
  });
}

Text title(Evaluation& evaluation, const Text& text) {
  return changed(evaluation, text, [after_letter = false](std::uint32_t code, std::size_t) mutable {
    return std::exchange(after_letter, is_cased(code)) ? CaseChange::kLower : CaseChange::kTitle;
  });
}

Text title_of_words(Evaluation& evaluation, const Text& text) {
  const auto at = text.boundaries();
  const auto is_before = [&](std::size_t i) {
    constexpr std::string_view kBefore = "-({[<";
    const std::string_view character = std::string_view(text.bytes()).substr(at[i], at[i + 1] - at[i]);
    return is_python_space(character) || kBefore.find(character) != kBefore.npos;
  };
  Text out;
  for (std::size_t i = 0; i + 1 < at.size();) {
    std::size_t end = i + 1;  // end of a word or of a separator
    while (end + 1 < at.size() && is_before(end) == is_before(i)) ++end;
    out.append(upper(evaluation, text.slice(at[i], at[i + 1])));
    out.append(lower(evaluation, text.slice(at[i + 1], at[end])));
    i = end;
  }
  return out;
}

bool is_alpha(std::string_view text) {
  return all_are(text, {CharacterKind::kAlpha});
}
bool is_alnum(std::string_view text) {
  return all_are(
      text, {CharacterKind::kAlpha, CharacterKind::kDecimal, CharacterKind::kDigit, CharacterKind::kNumeric});
}
bool is_decimal(std::string_view text) {
  return all_are(text, {CharacterKind::kDecimal});
}
bool is_digit(std::string_view text) {
  return all_are(text, {CharacterKind::kDigit});
}
bool is_numeric(std::string_view text) {
  return all_are(text, {CharacterKind::kNumeric});
}

bool is_space(std::string_view text) {
  bool all = !text.empty();
  for (; all && !text.empty(); text.remove_prefix(first_character(text).size()))
    all = is_python_space(first_character(text));
  return all;
}

bool is_ascii(std::string_view text) {
  constexpr unsigned char kFirstBeyond = 0x80;
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < kFirstBeyond; });
}

bool is_upper(std::string_view text) {
  return is_all(text, CharacterKind::kUpper, CharacterKind::kLower);
}
bool is_lower(std::string_view text) {
  return is_all(text, CharacterKind::kLower, CharacterKind::kUpper);
}

bool is_title(std::string_view text) {
  bool after_letter = false, found = false;
  for (const std::uint32_t code : code_points_of(text)) {
    const bool capital = has_kind(CharacterKind::kUpper, code) || has_kind(CharacterKind::kTitle, code);
    const bool small = has_kind(CharacterKind::kLower, code);
    if ((capital && after_letter) || (small && !after_letter)) return false;
    after_letter = capital || small;
    found = found || after_letter;
  }
  return found;
}

}  // namespace serval::jinja
