#include "models/tokenizer/oniguruma/pattern.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

#include "models/tokenizer/oniguruma/bracket.h"
#include "models/tokenizer/oniguruma/case_folding.h"
#include "models/tokenizer/oniguruma/character_set.h"
#include "models/tokenizer/oniguruma/cursor.h"
#include "models/tokenizer/oniguruma/escape.h"
#include "models/tokenizer/oniguruma/properties.h"

namespace serval::oniguruma {
namespace {

constexpr int kMaxDepth = 100;  // of nested groups

struct Options {
  bool ignore_case = false;
  bool dot_is_any = false;  // Oniguruma's m, PCRE2's s
};

// A translated part of a pattern.
struct Part {
  std::string text;
  bool may_be_empty = false;
};

// The operand of a quantifier, or an assertion, which must not be repeated.
struct Atom {
  Part part;
  bool repeatable = true;
};

// {low,high}, {low,}, {,high} or {low}.
struct Interval {
  int low, high;  // high: -1 if there is none
  bool exact;     // {low}
};

class Translation {
 public:
  Translation(std::string_view pattern, std::string_view where) : cursor_(pattern, where) {}

  std::string whole() {
    std::string out = alternatives({}, 0).text;
    if (!cursor_.at_end()) cursor_.refuse(cursor_.at(), "')' without '('");
    return out;
  }

 private:
  // Translates up to a ')' or the end. The ')' is not taken.
  Part alternatives(Options options, int depth) {
    if (depth > kMaxDepth)
      cursor_.refuse(cursor_.at(), fmt::format("groups nested deeper than {}", kMaxDepth));
    Part all;
    bool this_may_be_empty = true;
    while (!cursor_.at_end() && cursor_.peek() != ')') {
      if (cursor_.take("|")) {
        folding_.interrupt();
        all.text += '|';
        all.may_be_empty |= std::exchange(this_may_be_empty, true);
      } else {
        const Part next = repeated(options, depth);
        all.text += next.text;
        this_may_be_empty &= next.may_be_empty;
      }
    }
    all.may_be_empty |= this_may_be_empty;
    return all;
  }

  Part repeated(Options options, int depth) {
    const int joinable = folding_.joinable();
    auto [part, repeatable] = take_atom(options, depth);
    for (bool first = true;; first = false) {
      const std::size_t begin = cursor_.at();
      const bool after_interval = cursor_.ends_with('}');
      if (!take_quantifier(first, &part)) return part;
      if (!repeatable) cursor_.refuse(begin, "repeating an assertion is not supported");
      if (!first && !after_interval) cursor_.refuse(begin, "a quantifier after *, + or ? is not supported");
      if (cursor_.text_since(begin) != "?") folding_.repetition(begin, joinable);
    }
  }

  // Appends the next quantifier to `part`. Returns false if none follows.
  bool take_quantifier(bool first, Part* part) {
    const std::size_t begin = cursor_.at();
    const std::string text = first ? part->text : "(?:" + part->text + ')';
    for (const std::string_view sign : {"*", "+", "?"}) {
      if (!cursor_.take(sign)) continue;
      const std::string_view kind = cursor_.take("?") ? "?" : cursor_.take("+") ? "+" : "";
      *part = {fmt::format("{}{}{}", text, sign, kind), part->may_be_empty || sign != "+"};
      return true;
    }
    const auto interval = take_interval();
    if (!interval) return false;
    const auto [low, high, exact] = *interval;
    if (high != -1 && high < low) cursor_.refuse(begin, "{n,m} with m below n is not supported");
    if (low > 1 && part->may_be_empty)
      cursor_.refuse(begin, "{n} after an expression that may be empty is not supported");
    const std::string most = high == -1 ? "" : std::to_string(high);
    const std::string count = exact ? fmt::format("{{{}}}", low) : fmt::format("{{{},{}}}", low, most);
    // {n,m}? is reluctant. In Oniguruma, {n}? makes the whole optional and {n,m}+ repeats it: the caller
    // handles these signs as another quantifier.
    const std::string_view kind = !exact && cursor_.take("?") ? "?" : "";
    *part = {fmt::format("{}{}{}", text, count, kind), part->may_be_empty || low == 0};
    return true;
  }

  std::optional<Interval> take_interval() {
    const std::size_t begin = cursor_.at();
    if (!cursor_.take("{")) return std::nullopt;
    Interval found{cursor_.take_number(), -1, true};
    if (cursor_.take(",")) {
      found.exact = false;
      found.high = cursor_.take_number();
    }
    if (!cursor_.take("}") || (found.low == -1 && found.high == -1)) {
      cursor_.back_to(begin);
      return std::nullopt;
    }
    if (found.low == -1) found.low = 0;
    return found;
  }

  Atom take_atom(Options options, int depth) {
    const std::size_t begin = cursor_.at();
    if (cursor_.take("(")) return take_group(begin, options, depth);
    if (cursor_.take("["))
      return {{take_bracket(cursor_, options.ignore_case ? &folding_ : nullptr).expression()}};
    if (cursor_.take("\\")) return take_escape(options);
    if (cursor_.take("^")) return assertion("^");
    if (cursor_.take("$")) return assertion("$");
    if (cursor_.take(".")) return one_of(".");
    if (Part nothing; take_quantifier(/*first=*/true, &nothing)) cursor_.refuse(begin, "nothing to repeat");
    return one_literal(begin, cursor_.take_character(), options);
  }

  static Atom assertion(std::string text) { return {{std::move(text), true}, false}; }

  Atom one_of(std::string text) {
    folding_.interrupt();
    return {{std::move(text)}};
  }

  Atom one_literal(std::size_t begin, std::uint32_t character, Options options) {
    if (!options.ignore_case) return one_of(literal(character));
    folding_.literal(begin, character);
    return {{literal(character)}};
  }

  // Call after a backslash.
  Atom take_escape(Options options) {
    constexpr std::string_view kAnyNewline = R"((?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}]))";
    const std::size_t begin = cursor_.at();
    if (const auto character = take_character_escape(cursor_)) return one_literal(begin, *character, options);
    if (auto position = take_position()) return assertion(std::move(*position));
    if (const auto set = take_set_escape(cursor_, /*in_brackets=*/false)) {
      // Oniguruma does not fold the case of named sets; PCRE2 would.
      return one_of(options.ignore_case ? "(?-i:" + set->expression() + ')' : set->expression());
    }
    if (cursor_.take("R")) return one_of(std::string(kAnyNewline));
    if (cursor_.take("O")) return one_of("(?s:.)");
    if (cursor_.take("N")) return one_of("(?-s:.)");
    refuse_escape(cursor_);
  }

  // Takes \A, \z, \Z, \b or \B.
  std::optional<std::string> take_position() {
    for (const std::string_view letter : {"A", "z", "Z"}) {
      if (cursor_.take(letter)) return '\\' + std::string(letter);
    }
    const std::string word = shorthand('w', /*in_brackets=*/false)->expression();
    if (cursor_.take("b")) return fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word);
    if (cursor_.take("B")) return fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
    return std::nullopt;
  }

  // Call after the '('.
  Atom take_group(std::size_t begin, Options options, int depth) {
    if (cursor_.sees("*")) cursor_.refuse(begin, "(* is not supported");
    if (!cursor_.take("?")) return finish_group(begin, "(?:", options, depth);
    for (const std::string_view kind : {":", ">", "=", "!", "<=", "<!"}) {
      if (!cursor_.take(kind)) continue;
      Atom group = finish_group(begin, "(?" + std::string(kind), options, depth);
      return kind == ":" || kind == ">" ? group : assertion(std::move(group.part.text));
    }
    if (cursor_.take("<")) {
      cursor_.take_until('>', "(?<");
      return finish_group(begin, "(?:", options, depth);
    }
    return take_options(begin, options, depth);
  }

  // Takes (?im-im:…), or (?im-im), which applies to the rest of the group including its alternatives.
  Atom take_options(std::size_t begin, Options options, int depth) {
    std::string open = "(?";
    for (bool on = true; cursor_.peek() != ':' && cursor_.peek() != ')';) {
      if (on && cursor_.take("-")) {
        on = false;
        open += '-';
      } else if (cursor_.take("i")) {
        options.ignore_case = on;
        open += 'i';
      } else if (cursor_.take("m")) {
        options.dot_is_any = on;
        open += 's';
      } else {
        const bool printable = cursor_.peek() > ' ' && cursor_.peek() <= '~';
        const std::string letter(printable ? 1 : 0, cursor_.peek());
        cursor_.refuse(begin, fmt::format("(?{} is not supported", letter));
      }
    }
    open += ':';
    if (cursor_.take(":")) return finish_group(begin, open, options, depth);
    cursor_.take(")");
    const Part rest = alternatives(options, depth + 1);
    return {{open + rest.text + ')', rest.may_be_empty}};
  }

  Atom finish_group(std::size_t begin, std::string_view open, Options options, int depth) {
    const Part inside = alternatives(options, depth + 1);
    if (!cursor_.take(")")) cursor_.refuse(begin, "'(' without ')'");
    return {{fmt::format("{}{})", open, inside.text), inside.may_be_empty}};
  }

  Cursor cursor_;
  CaseFolding folding_{cursor_};
};

}  // namespace

std::string to_pcre2(std::string_view pattern, std::string_view where) {
  return Translation(pattern, where).whole();
}

}  // namespace serval::oniguruma
