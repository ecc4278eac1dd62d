#include "vm/base/base64.h"

#include <cstddef>
#include <cstdint>

namespace serval {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr size_t kBytesOfGroup = 3, kDigitsOfGroup = 4;
  std::string out;
  out.reserve((bytes.size() + kBytesOfGroup - 1) / kBytesOfGroup * kDigitsOfGroup);
  for (size_t at = 0; at < bytes.size(); at += kBytesOfGroup) {
    uint32_t group = 0;
    for (size_t i = 0; i < kBytesOfGroup; ++i) {
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    }
    for (size_t i = 0; i < kDigitsOfGroup; ++i) {
      const bool used = at + i <= bytes.size();
      out += used ? kDigits[group >> (6 * (kDigitsOfGroup - 1 - i)) & 0x3f] : '=';
    }
  }
  return out;
}

}  // namespace serval
