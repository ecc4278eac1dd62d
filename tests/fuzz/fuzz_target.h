// A fuzz target passes hostile bytes to a reader and checks that the reader returns or throws serval::Error
// with one line. libFuzzer calls it (preset `fuzz`); replay_main.cc calls it with the committed corpus. A
// target returns if all checks pass and aborts otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "vm/base/error.h"

// libFuzzer requires this name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace serval::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Aborts with the text `what` unless `condition` is true. Not an assert(), which release builds remove.
void require(bool condition, const char* what);

// Aborts unless the message is one printable line.
void require_one_line(const char* message);

// True if `read` accepts its input. Aborts if it throws an Error whose message is not one printable line.
template <class Read>
bool accepts(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require_one_line(error.what());
    return false;
  }
}

// Splits an input into at most `count` parts at NUL bytes. The last part is the rest.
std::vector<std::string_view> split(std::string_view input, size_t count);

}  // namespace serval::fuzz
