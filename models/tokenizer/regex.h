// A pattern of a tokenizer.json, found in text again and again. The pattern and the text may both be hostile.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/text_span.h"

namespace serval {

// CPU time that the calling thread has used.
double thread_cpu_seconds();

// Version of the Unicode tables that patterns and all other questions about characters use: "14.0.0". They
// are PCRE2's. Characters that are newer count as unassigned.
std::string unicode_version();

// What the search of one text may take. No honest pattern comes near.
struct RegexBudget {
  double seconds = 10.0;
  double seconds_per_byte = 10.0 / (1 << 20);  // in addition, for a long text
  std::function<double()> clock = thread_cpu_seconds;
};

// Immutable; find_all may run on several threads at once.
//
// Hugging Face's `tokenizers` runs these patterns in Oniguruma; here PCRE2 runs a translation
// (models/tokenizer/oniguruma/pattern.h), which refuses what the two read differently.
class Regex {
 public:
  // `where` begins the one line about a pattern that does not compile, or that takes too long on a text.
  Regex(std::string_view pattern, std::string where, RegexBudget budget = {});
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // All matches in `text`, which is valid UTF-8, from left to right. They do not overlap; some may be empty.
  // Gives up with an Error when the budget is spent, which it looks at after kSearchWindow starting
  // positions.
  std::vector<TextSpan> find_all(std::string_view text) const;
  static constexpr std::size_t kSearchWindow = 16;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace serval
