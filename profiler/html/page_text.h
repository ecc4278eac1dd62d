// viewer/ as one page, made by the build (CMakeLists.txt).
#pragma once

#include <string_view>

namespace serval::html {

// The page's text; kDataMark is replaced by the traces.
inline constexpr std::string_view kDataMark = "<!-- data -->";
std::string_view page_text();

}  // namespace serval::html
