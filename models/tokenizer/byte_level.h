// The byte alphabet of GPT-2 (openai/gpt-2, encoder.py, bytes_to_unicode): tokenizer.json writes each byte of
// a token as one printable character. '!'…'~', U+00A1…U+00AC and U+00AE…U+00FF stand for themselves; the
// other 68 bytes, in order, for U+0100, U+0101, …. So " a" is written "Ġa".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serval {

// `written` is valid UTF-8. Nothing where a character is not of the alphabet.
std::optional<std::string> byte_level_decode(std::string_view written);

std::string byte_level_encode(std::string_view bytes);

}  // namespace serval
