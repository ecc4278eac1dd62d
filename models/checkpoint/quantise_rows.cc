#include "models/checkpoint/quantise_rows.h"

#include <algorithm>
#include <cmath>

#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"

namespace serval {

void quantise_rows(const uint16_t* bf16, int64_t rows, int64_t cols, uint8_t* to) {
  const auto row_bytes = static_cast<int64_t>(e4m3_rows::row_bytes(static_cast<uint64_t>(cols)));
  for (int64_t row = 0; row < rows; ++row) {
    const uint16_t* from = bf16 + row * cols;
    uint8_t* codes = to + row * row_bytes;
    float largest = 0;
    for (int64_t col = 0; col < cols; ++col) largest = std::max(largest, std::fabs(bf16_to_float(from[col])));
    const float scale = e4m3_scale(largest);
    for (int64_t col = 0; col < cols; ++col) codes[col] = float_to_e4m3(bf16_to_float(from[col]) / scale);
    e4m3_rows::set_scale(codes, static_cast<uint64_t>(cols), scale);
  }
}

}  // namespace serval
