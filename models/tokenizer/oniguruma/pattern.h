// Translates Oniguruma's patterns to PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace serval::oniguruma {

// Hugging Face's `tokenizers` (0.23) runs the patterns of tokenizer.json with Oniguruma 6.9 and its own
// syntax (oniguruma/doc/RE). Returns a PCRE2 pattern with the same matches. Compile it with UTF, UCP,
// MULTILINE and a line feed as the newline. Syntax with different meanings is rewritten if an exact
// equivalent exists and refused otherwise: Error(kRuntime), "WHERE: pattern "…": byte N: …". Captures become
// plain groups: nothing uses them. tests/tokenizer/oniguruma_test.cc lists both kinds.
std::string to_pcre2(std::string_view pattern, std::string_view where);

}  // namespace serval::oniguruma
