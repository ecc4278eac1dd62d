#pragma once

namespace serval {

// "major.minor.patch", as in CMakeLists.txt. Thread-safe.
const char* version() noexcept;

}  // namespace serval
