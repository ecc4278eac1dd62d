// Decoding of possibly invalid UTF-8. Each maximal invalid subpart becomes one U+FFFD, as recommended by
// Unicode 16, section 3.9, table 3-8, and done by Python's errors="replace" and Rust's from_utf8_lossy.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace serval {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Unit {
  enum class Kind { kValid, kInvalid, kIncomplete };
  Kind kind;
  std::size_t bytes;  // length of the code point, or of the invalid or incomplete subpart; at least 1
};

// The first unit of `text`, which must not be empty. kIncomplete: more bytes could complete a code point.
Utf8Unit utf8_first(std::string_view text);

// Returns `text` if it is valid, else a copy in `*storage` with its invalid parts replaced.
std::string_view utf8_lossy(std::string_view text, std::string* storage);

// As utf8_lossy(), for text that arrives in pieces. The results of push() and flush(), joined, are
// utf8_lossy() of the whole text.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);  // newly completed code points
  std::string flush();  // U+FFFD for an incomplete code point; the object can then be reused

 private:
  std::string pending_;  // at most 3 bytes: the beginning of a code point
};

}  // namespace serval
