#include "models/tokenizer/oniguruma/bracket.h"

#include <fmt/format.h>
#include <optional>

#include "models/tokenizer/oniguruma/escape.h"
#include "models/tokenizer/oniguruma/properties.h"
#include "vm/base/json_file.h"

namespace serval::oniguruma {
namespace {

constexpr int kMaxDepth = 16;  // of nested brackets

class Bracket {
 public:
  Bracket(Cursor& cursor, CaseFolding* folding) : cursor_(cursor), folding_(folding) {}

  CharacterSet take(int depth) {
    const std::size_t begin = cursor_.at();
    if (depth > kMaxDepth) cursor_.refuse(begin, fmt::format("[ nested deeper than {}", kMaxDepth));
    const bool complement = cursor_.take("^");
    CharacterSet set = take_union(depth, /*first_of_bracket=*/true);
    while (cursor_.take("&&")) {
      if (folding_ != nullptr) cursor_.refuse(begin, "&& under (?i) is not supported");
      set = intersection_of(set, take_union(depth, /*first_of_bracket=*/false));
    }
    if (!cursor_.take("]")) cursor_.refuse(begin, "[ has no ]");
    return complement ? complement_of(set) : set;
  }

  // The character x of a bracket [x]. Oniguruma treats it as the literal x.
  std::optional<std::uint32_t> only() const { return items_ == 1 ? only_ : std::nullopt; }

 private:
  CharacterSet take_union(int depth, bool first_of_bracket) {
    const std::size_t begin = cursor_.at();
    CharacterSet set;
    if (first_of_bracket && cursor_.peek() == '-') take_dash(begin, &set);
    if (first_of_bracket && set.members.empty() && cursor_.peek() == ']')
      cursor_.refuse(begin, "] as the first in [ is not supported");
    while (!cursor_.at_end() && cursor_.peek() != ']' && !cursor_.sees("&&")) take_item(depth, &set);
    if (set.members.empty() && set.others.empty()) cursor_.refuse(begin, "nothing before or after && in [");
    return set;
  }

  void take_dash(std::size_t begin, CharacterSet* set) {
    cursor_.take("-");
    if (cursor_.peek() == '-') cursor_.refuse(begin, "-- in [ is not supported; write \\-");
    ++items_;
    set->add_range('-', '-');
  }

  void take_item(int depth, CharacterSet* set) {
    const std::size_t begin = cursor_.at();
    if (cursor_.peek() == '-') {
      if (!cursor_.sees("-]")) cursor_.refuse(begin, "- in the middle of [ is not supported; write \\-");
      return take_dash(begin, set);
    }
    ++items_;
    if (const auto more = take_set(depth)) {
      if (folding_ != nullptr && !folds_to_itself(begin))
        cursor_.refuse(begin, "this set in [ under (?i) is not supported");
      set->add(*more);
      return;
    }
    const std::uint32_t first = take_character();
    const bool is_range = cursor_.peek() == '-' && !cursor_.sees("-]");
    const std::uint32_t last = is_range ? take_range_end(begin) : first;
    if (last < first) cursor_.refuse(begin, "a range in [ that ends before it begins");
    if (folding_ != nullptr) folding_->range(begin, first, last);
    only_ = is_range ? std::nullopt : std::optional(first);
    set->add_range(first, last);
  }

  std::optional<CharacterSet> take_set(int depth) {
    const std::size_t begin = cursor_.at();
    if (cursor_.take("[:")) return take_posix(begin);
    if (cursor_.take("[")) return take(depth + 1);
    if (!cursor_.take("\\")) return std::nullopt;
    auto set = take_set_escape(cursor_, /*in_brackets=*/true);
    if (!set) cursor_.back_to(begin);
    return set;
  }

  CharacterSet take_posix(std::size_t begin) {
    std::string_view name = cursor_.take_until(':', "[:");
    if (!cursor_.take("]")) cursor_.refuse(begin, "[: has no :]");
    const bool complement = name.starts_with('^');
    if (complement) name.remove_prefix(1);
    const auto set = posix_bracket(name);
    if (!set) cursor_.refuse(begin, fmt::format("the set [:{}:] is unknown", in_quotes(name)));
    return complement ? complement_of(*set) : *set;
  }

  std::uint32_t take_character() {
    constexpr std::uint32_t kBackspace = 8;
    if (!cursor_.take("\\")) return cursor_.take_character();
    if (cursor_.take("b")) return kBackspace;
    if (const auto character = take_character_escape(cursor_)) return *character;
    refuse_escape(cursor_);
  }

  std::uint32_t take_range_end(std::size_t begin) {
    cursor_.take("-");
    if (cursor_.peek() == '[' || cursor_.sees("&&") || take_set(0))
      cursor_.refuse(begin, "a range in [ that ends in a set");
    return take_character();
  }

  // True if the set at byte `begin` is \s, \d or \h.
  bool folds_to_itself(std::size_t begin) const {
    const std::string_view text = cursor_.text_since(begin);
    return text == "\\s" || text == "\\d" || text == "\\h";
  }

  Cursor& cursor_;
  CaseFolding* folding_;
  int items_ = 0;
  std::optional<std::uint32_t> only_;
};

}  // namespace

CharacterSet take_bracket(Cursor& cursor, CaseFolding* folding) {
  const std::size_t begin = cursor.at();
  Bracket bracket(cursor, folding);
  CharacterSet set = bracket.take(0);
  if (folding == nullptr) return set;
  if (const auto only = bracket.only()) {
    folding->literal(begin, *only);
  } else {
    folding->interrupt();
  }
  return set;
}

}  // namespace serval::oniguruma
