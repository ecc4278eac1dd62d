// A trace in the form that the page holds: one line of JSON that describes it, one line of base64 with its
// numbers.
#pragma once

#include <string>

#include "profiler/html/html.h"

namespace serval::html {

// Both lines. They contain no '<', so that they may stand inside a <script> element.
std::string data_block(const HtmlTrace& trace);

// Equivalent JSON without '<', for use inside a <script> element: "</script" would end the element, and
// "<!--" would change where it ends.
std::string without_less_than(const std::string& json);

}  // namespace serval::html
