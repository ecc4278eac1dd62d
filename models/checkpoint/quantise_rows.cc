#include "models/checkpoint/quantise_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

float largest_magnitude(const uint16_t* bf16, int64_t cols) {
  float largest = 0;
  for (int64_t col = 0; col < cols; ++col) largest = std::max(largest, std::fabs(bf16_to_float(bf16[col])));
  return largest;
}

void quantise_to_e4m3(const uint16_t* bf16, int64_t cols, uint8_t* codes) {
  const float scale = e4m3_scale(largest_magnitude(bf16, cols));
  for (int64_t col = 0; col < cols; ++col) codes[col] = float_to_e4m3(bf16_to_float(bf16[col]) / scale);
  e4m3_rows::set_scale(codes, static_cast<uint64_t>(cols), scale);
}

void quantise_to_int4(uint32_t group, const uint16_t* bf16, int64_t cols, uint8_t* row) {
  const auto width = static_cast<uint64_t>(cols);
  const float scale = int4_row_scale(largest_magnitude(bf16, cols));
  for (uint64_t first = 0; first < width; first += group) {
    float least = 0, most = 0;
    for (uint64_t col = first; col < first + group; ++col) {
      const float element = bf16_to_float(bf16[col]) / scale;
      least = std::min(least, element);
      most = std::max(most, element);
    }
    const uint32_t word = int4_word(least, most);
    int4_rows::set_word(row, width, first / group, word);
    const auto code = [&](uint64_t col) { return int4_code(bf16_to_float(bf16[col]) / scale, word); };
    for (uint64_t col = first; col < first + group; col += 2)
      int4_rows::set_pair(row, col, code(col), code(col + 1));
  }
  int4_rows::clear_padding(row, width);
  int4_rows::set_scale(row, width, group, scale);
}

}  // namespace

void quantise_rows(DType dtype, const uint16_t* bf16, int64_t rows, int64_t cols, uint8_t* to) {
  const auto row_bytes = static_cast<int64_t>(row_bytes_of(dtype, static_cast<uint64_t>(cols)));
  for (int64_t row = 0; row < rows; ++row) {
    if (dtype == DType::kE4M3) {
      quantise_to_e4m3(bf16 + row * cols, cols, to + row * row_bytes);
    } else {
      quantise_to_int4(group_of(dtype), bf16 + row * cols, cols, to + row * row_bytes);
    }
  }
}

}  // namespace serval
