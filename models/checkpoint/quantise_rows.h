// Rounds rows of bf16 weights to e4m3, with a scale for each row (vm/layout/e4m3_rows.h).
#pragma once

#include <cstdint>

namespace serval {

// The scale of a row whose largest magnitude is `largest`: that element becomes the largest e4m3, 448. A row
// of zeros has scale 1.
constexpr float e4m3_scale(float largest) {
  constexpr float kLargestE4M3 = 448;
  return largest > 0 ? largest / kLargestE4M3 : 1;
}

// to: [rows] of e4m3_rows::row_bytes(cols). Codes are the e4m3 nearest to element / scale, ties to even.
// Elements are finite. Thread-safe.
void quantise_rows(const uint16_t* bf16, int64_t rows, int64_t cols, uint8_t* to);

}  // namespace serval
