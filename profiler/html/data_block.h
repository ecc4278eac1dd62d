// A trace as the page holds it: one line of JSON that describes it, one line of base64 with its numbers.
#pragma once

#include <string>

#include "profiler/html/html.h"

namespace serval::html {

// Both lines. Safe inside a <script> element: no '<' is in them.
std::string data_block(const HtmlTrace& trace);

// JSON that means the same and may stand inside a <script> element: that ends at "</script", and "<!--"
// changes what ends it.
std::string without_less_than(const std::string& json);

}  // namespace serval::html
