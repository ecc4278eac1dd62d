// Looks for weights that no model has: NaN and infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace serval {

// The index of the first bf16 that is NaN or infinite; bf16.size() if all are finite. As fast as memory is
// read. Thread-safe.
size_t first_not_finite(std::span<const uint16_t> bf16);

}  // namespace serval
