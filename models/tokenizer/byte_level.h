// The byte alphabet of GPT-2 (openai/gpt-2, encoder.py, bytes_to_unicode): tokenizer.json writes each byte of
// a token as one printable character. Bytes 0x21…0x7E, 0xA1…0xAC and 0xAE…0xFF are written as the code point
// of the same number; the other 68 bytes, in order, as U+0100, U+0101, …. So " a" is written "Ġa".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serval {

// `written` must be valid UTF-8. nullopt if it has a character outside the alphabet.
std::optional<std::string> byte_level_decode(std::string_view written);

std::string byte_level_encode(std::string_view bytes);

}  // namespace serval
