// Oniguruma's patterns in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

namespace serval::oniguruma {

// Hugging Face's `tokenizers` (0.23) runs the patterns of tokenizer.json in Oniguruma 6.9 with its own syntax
// (oniguruma/doc/RE). Returns the PCRE2 pattern that finds the same, to be compiled with UTF, UCP, MULTILINE
// and a line feed as the newline. What the two read differently is put in other words where that is exact and
// refused by name where it is not: Error(kRuntime), "WHERE: pattern "…": byte N: …". Captures become groups:
// nothing asks for them. tests/tokenizer/oniguruma_test.cc has both lists.
std::string to_pcre2(std::string_view pattern, std::string_view where);

}  // namespace serval::oniguruma
