// Checks of the arguments of kernels.
#pragma once

#include <cstdint>
#include <string>

#include "vm/base/error.h"

namespace serval::kernels {

// Throws Error(kUsage) with one line, "kernel: what", unless `holds`.
inline void require(bool holds, const char* kernel, const std::string& what) {
  if (!holds) throw Error(ErrorKind::kUsage, std::string(kernel) + ": " + what);
}
inline void require_multiple(uint64_t value, uint64_t of, const char* kernel, const char* name) {
  require(value > 0 && value % of == 0, kernel,
          std::string(name) + " is " + std::to_string(value) + "; it must be a positive multiple of " +
              std::to_string(of));
}
// The copy engine moves 16 bytes at a time.
inline constexpr uint32_t kAlignment = 16;
inline void require_aligned(const void* p, const char* kernel, const char* name) {
  require(p != nullptr && reinterpret_cast<uintptr_t>(p) % kAlignment == 0, kernel,
          std::string(name) + " must be an address in GPU memory that is a multiple of 16 bytes");
}

}  // namespace serval::kernels
