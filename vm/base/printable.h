// Text of strangers as one line of a log or a terminal may have it.
#pragma once

#include <string>
#include <string_view>

namespace serval {

// `text` with escapes for what would break the line or reorder it: control characters (\x1b), characters that
// change the direction of text, separators and other invisible ones (\u202e), and bytes that are not UTF-8
// (\xff). All else stays as it is.
std::string printable(std::string_view text);

}  // namespace serval
