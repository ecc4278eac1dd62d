// UTF-8 as sequences of byte ranges (The Unicode Standard, table 3-7), for automata that read bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace serval::grammar {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;
inline constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

struct CodePoints {
  uint32_t first, last;
  friend bool operator==(const CodePoints&, const CodePoints&) = default;
};
struct ByteRange {
  uint8_t first, last;
};

// The byte strings whose byte i lies in bytes()[i], for all i.
class Utf8Sequence {
 public:
  Utf8Sequence(std::span<const uint8_t> first, std::span<const uint8_t> last);
  std::span<const ByteRange> bytes() const { return {bytes_.data(), size_}; }

 private:
  std::array<ByteRange, 4> bytes_{};
  size_t size_;
};

// Disjoint sequences that together are the UTF-8 of all code points of the range, without surrogates.
std::vector<Utf8Sequence> utf8_sequences(CodePoints range);

// Appends the UTF-8 of a code point, which must not be a surrogate.
void append_utf8(uint32_t code_point, std::vector<uint8_t>& bytes);

// Removes the first character of `text`, which must be UTF-8 and not empty. Returns its code point.
uint32_t take_code_point(std::string_view& text);

// State of a UTF-8 decoder: which continuation bytes the current character still needs.
enum class Utf8State : uint8_t {
  kBoundary,
  kOne,
  kTwo,
  kThree,
  kAfterE0,
  kAfterEd,
  kAfterF0,
  kAfterF4,
  kInvalid
};
inline constexpr size_t kUtf8States = 8;  // without kInvalid
Utf8State utf8_step(Utf8State state, uint8_t byte);

}  // namespace serval::grammar
