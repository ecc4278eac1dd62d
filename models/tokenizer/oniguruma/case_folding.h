// What (?i) may stand over. Oniguruma lets "ss" match "ß" and the other way round, and closes classes under
// case; PCRE2 folds one character to one character. Letters that could take part in such a match are refused.
#pragma once

#include <cstdint>

#include "models/tokenizer/oniguruma/cursor.h"

namespace serval::oniguruma {

class CaseFolding {
 public:
  explicit CaseFolding(const Cursor& cursor) : cursor_(&cursor) {}

  // A literal character at byte `at`, and something between literals that cannot be merged with them.
  void literal(std::size_t at, std::uint32_t character);
  void interrupt() { previous_ = 0; }

  // A class with `first` to `last` in it.
  void range(std::size_t at, std::uint32_t first, std::uint32_t last) const;

  // Literals so far that a repetition could bring together to one character's folding.
  int joinable() const { return joinable_; }
  void repetition(std::size_t at, int joinable_before) const;

 private:
  const Cursor* cursor_;
  char previous_ = 0;
  int joinable_ = 0;
};

}  // namespace serval::oniguruma
