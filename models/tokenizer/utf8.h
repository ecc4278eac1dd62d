// UTF-8 that may be broken. Each maximal invalid subpart becomes one U+FFFD: the practice of Unicode 16,
// section 3.9, table 3-8, which Python's errors="replace" and Rust's from_utf8_lossy follow too.
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

// What `text`, which is not empty, begins with. Incomplete: more bytes could make it a code point.
Utf8Unit utf8_first(std::string_view text);

// `text` with its invalid parts replaced, a copy only where there are some: then `*storage` holds what is
// returned.
std::string_view utf8_lossy(std::string_view text, std::string* storage);

// The same, over text that comes in pieces: what push() and flush() return, joined, is utf8_lossy of the
// whole.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);  // the complete code points now known
  std::string flush();  // U+FFFD if a code point was left unfinished; ready for a new text

 private:
  std::string pending_;  // at most 3 bytes: the beginning of a code point
};

}  // namespace serval
