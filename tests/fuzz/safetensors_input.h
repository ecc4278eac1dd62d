// Inputs that are .safetensors files without the length of their header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace serval::fuzz {

// The file: the header's correct length before the input, because few mutations keep these eight bytes
// correct. Takes the last brace as the end of the header.
inline std::string with_length(std::string_view input) {
  const uint64_t header_bytes = input.rfind('}') + 1;
  return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes) + std::string(input);
}

}  // namespace serval::fuzz
