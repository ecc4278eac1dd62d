// A range of a text.
#pragma once

#include <cstddef>

namespace serval {

struct TextSpan {
  std::size_t begin, end;  // byte offsets; `end` is exclusive
};

}  // namespace serval
