// A pattern of a tokenizer.json, found in text again and again. The pattern and the text may both be hostile.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace serval {

struct TextSpan {
  std::size_t begin, end;  // bytes
};

// Immutable; find_all may run on several threads at once.
//
// Hugging Face's `tokenizers` runs these patterns in Oniguruma with Ruby's syntax; here PCRE2 does. They
// agree on what tokenizers use: Unicode properties, classes, (?i:), lookaround, possessive quantifiers; ^ and
// $ match at each line.
class Regex {
 public:
  // `where` begins the one line about a pattern that does not compile, or that takes too long on a text.
  Regex(std::string_view pattern, std::string where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // All matches in `text`, which is valid UTF-8, from left to right. They do not overlap; some may be empty.
  // Gives up with an Error when it has used far more CPU time than any honest pattern needs.
  std::vector<TextSpan> find_all(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<const Compiled> compiled_;
};

}  // namespace serval
