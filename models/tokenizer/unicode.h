// Code points of valid UTF-8, and two of their properties, which added tokens need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace serval {

// The first and the last character of `text`, which must not be empty.
std::string_view first_character(std::string_view text);
std::string_view last_character(std::string_view text);

std::uint32_t code_point(std::string_view character);

// Appends the character. Returns false and appends nothing for a surrogate or a value above U+10FFFF.
bool append_utf8(std::uint32_t code_point, std::string* out);

bool is_white_space(std::string_view character);  // Unicode's White_Space
bool is_word_character(
    std::string_view character);  // \w of UTS 18: letters, marks, digits, connectors, joiners

}  // namespace serval
