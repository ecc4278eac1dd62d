// The values of `format` that are known, as patterns. What they match is a part of what the format allows.
#pragma once

#include <string>
#include <string_view>

namespace serval::grammar {

// An expression for pattern.h; empty: not known.
std::string_view pattern_of_format(std::string_view format);
// "date, time, …"
std::string known_formats();

}  // namespace serval::grammar
