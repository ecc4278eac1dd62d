// Rows of a matrix of e4m3 weights in host memory: a row's codes, then its scale. An element is its code's
// value times the scale of its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace serval::e4m3_rows {

// A row of `cols` codes takes this many bytes. cols is a multiple of 16, so scales are aligned.
constexpr uint64_t row_bytes(uint64_t cols) {
  return cols + sizeof(float);
}
inline float scale_of(const uint8_t* row, uint64_t cols) {
  float scale = 0;
  std::memcpy(&scale, row + cols, sizeof scale);
  return scale;
}
inline void set_scale(uint8_t* row, uint64_t cols, float scale) {
  std::memcpy(row + cols, &scale, sizeof scale);
}

}  // namespace serval::e4m3_rows
