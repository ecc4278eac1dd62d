// The supported values of `format` as patterns. Each pattern matches only valid texts of its format, but not
// all of them.
#pragma once

#include <string>
#include <string_view>

namespace serval::grammar {

// A regular expression for pattern.h; empty if the format is not supported.
std::string_view pattern_of_format(std::string_view format);
// "date, time, …"
std::string known_formats();

}  // namespace serval::grammar
