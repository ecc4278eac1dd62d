// viewer/ as a single page, made by the build (CMakeLists.txt).
#pragma once

#include <string_view>

namespace serval::html {

// Marks where the traces go in the page's text.
inline constexpr std::string_view kDataMark = "<!-- data -->";
std::string_view page_text();

}  // namespace serval::html
