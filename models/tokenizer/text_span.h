// A stretch of a text.
#pragma once

#include <cstddef>

namespace serval {

struct TextSpan {
  std::size_t begin, end;  // bytes
};

}  // namespace serval
