// Finds all matches of a tokenizer.json's pattern in a text. Pattern and text are untrusted input.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/text_span.h"

namespace serval {

// CPU time used by the calling thread.
double thread_cpu_seconds();

// Version of PCRE2's Unicode tables, such as "14.0.0". Patterns and character properties use them. Newer
// characters count as unassigned.
std::string unicode_version();

// CPU time for the search of one text, far above the needs of real patterns.
struct RegexBudget {
  double seconds = 10.0;
  double seconds_per_byte = 10.0 / (1 << 20);  // additional time for each byte of the text
  std::function<double()> clock = thread_cpu_seconds;
};

// Immutable and thread-safe.
//
// Hugging Face's `tokenizers` runs these patterns with Oniguruma. Here PCRE2 runs a translation
// (models/tokenizer/oniguruma/pattern.h), which refuses patterns that it cannot translate exactly.
class Regex {
 public:
  // Error lines start with `where`. Throws Error(kRuntime) for a pattern that is not supported or does not
  // compile.
  Regex(std::string_view pattern, std::string where, RegexBudget budget = {});
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // All matches in `text`, which must be valid UTF-8, from left to right. They do not overlap; some may be
  // empty. Throws Error(kRuntime) when the budget is exceeded, which is checked after every kSearchWindow
  // starting positions.
  std::vector<TextSpan> find_all(std::string_view text) const;
  static constexpr std::size_t kSearchWindow = 16;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace serval
