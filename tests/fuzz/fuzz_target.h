// A fuzz target hands hostile bytes to a reader and checks what the reader promises: it returns, or throws
// serval::Error with one line. libFuzzer calls it (preset `fuzz`); replay_main.cc calls it with the committed
// corpus. A target that returns is content; one that is not aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "vm/base/error.h"

// The name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace serval::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Aborts, saying what was promised. Assertions would be gone in a release build.
void promise(bool kept, const char* what);

// Aborts unless the message is one printable line.
void promise_one_line(const char* message);

// Whether `read` accepts its input; if it refuses, it does so as it should.
template <class Read>
bool accepts(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    promise_one_line(error.what());
    return false;
  }
}

// At most `count` parts of an input, which has several documents with a NUL between them; the last part has
// what is left.
std::vector<std::string_view> split(std::string_view input, size_t count);

}  // namespace serval::fuzz
