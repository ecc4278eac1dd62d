#include "models/tokenizer/byte_level.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "models/tokenizer/utf8.h"

namespace serval {
namespace {

constexpr std::size_t kBytes = 256;
constexpr std::uint32_t kFirstSubstitute = 0x100;
constexpr std::size_t kSubstitutes = 68;
constexpr std::size_t kAlphabetEnd = kFirstSubstitute + kSubstitutes;

constexpr bool maps_to_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<std::uint16_t, kBytes> character{};  // byte → code point
  std::array<std::int16_t, kAlphabetEnd> byte{};  // code point → byte, or -1
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  std::uint32_t substitute = kFirstSubstitute;
  for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
    const std::uint32_t character = maps_to_itself(byte) ? byte : substitute++;
    alphabet.character[byte] = static_cast<std::uint16_t>(character);
    alphabet.byte[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

// Characters of the alphabet take one or two bytes in UTF-8.
constexpr std::uint32_t kTwoByteLead = 0xC0, kContinuation = 0x80, kPayloadMask = 0x3F;
constexpr int kPayloadBits = 6;

}  // namespace

std::optional<std::string> byte_level_decode(std::string_view written) {
  std::string bytes;
  bytes.reserve(written.size());
  while (!written.empty()) {
    const std::size_t length = utf8_first(written).bytes;
    if (length > 2) return std::nullopt;
    std::uint32_t character = static_cast<unsigned char>(written[0]);
    if (length == 2) {
      character = (character & ~kTwoByteLead) << kPayloadBits;
      character |= static_cast<unsigned char>(written[1]) & kPayloadMask;
    }
    if (character >= kAlphabetEnd || kAlphabet.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte[character]);
    written.remove_prefix(length);
  }
  return bytes;
}

std::string byte_level_encode(std::string_view bytes) {
  std::string written;
  for (const char c : bytes) {
    const std::uint32_t character = kAlphabet.character[static_cast<unsigned char>(c)];
    if (character < kContinuation) {
      written += static_cast<char>(character);
    } else {
      written += static_cast<char>(kTwoByteLead | (character >> kPayloadBits));
      written += static_cast<char>(kContinuation | (character & kPayloadMask));
    }
  }
  return written;
}

}  // namespace serval
