// Texts that match a regular expression, and texts of a list, as automata.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"

namespace serval::grammar {

// The texts that match the whole expression (pattern.h describes the syntax). `regex` must be UTF-8. Throws
// Error(kUsage) with one line "regex: …" as compile_pattern() does, and for an expression that no text
// matches.
Grammar compile_regex(std::string_view regex);

struct ChoiceLimits {
  static constexpr size_t kMaxTexts = 10'000;
  static constexpr size_t kMaxBytes = size_t{256} << 10;  // of all texts together
};

// One of the texts. Throws Error(kUsage) with one line "choice: …" for an empty list and beyond the limits.
Grammar compile_choice(std::span<const std::string> texts);

}  // namespace serval::grammar
