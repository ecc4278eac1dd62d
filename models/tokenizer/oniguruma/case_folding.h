// Refuses characters under (?i) for which Oniguruma and PCRE2 differ. Oniguruma lets "ss" match "ß" and the
// reverse, and closes classes under case. PCRE2 only folds one character to one character.
#pragma once

#include <cstdint>

#include "models/tokenizer/oniguruma/cursor.h"

namespace serval::oniguruma {

class CaseFolding {
 public:
  explicit CaseFolding(const Cursor& cursor) : cursor_(&cursor) {}

  // Call literal() for each literal character (at byte `at`), and interrupt() for anything else between them.
  void literal(std::size_t at, std::uint32_t character);
  void interrupt() { previous_ = 0; }

  // Call for each range `first` to `last` of a class.
  void range(std::size_t at, std::uint32_t first, std::uint32_t last) const;

  // Number of literals so far that, if repeated, could form a pair that is the folding of one character. A
  // repetition of an expression is refused if the number has changed since `joinable_before`.
  int joinable() const { return joinable_; }
  void repetition(std::size_t at, int joinable_before) const;

 private:
  const Cursor* cursor_;
  char previous_ = 0;
  int joinable_ = 0;
};

}  // namespace serval::oniguruma
