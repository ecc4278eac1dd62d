#include "instructions/common/multiply_weights.h"

#include <algorithm>
#include <array>
#include <vector>

#include "instructions/common/matvec.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/base/int4.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

// Rows whose codes are widened together: their bf16 stay in the L2 cache.
constexpr size_t kRowsAtOnce = 8;

// Every e4m3 value is exact in bf16.
constexpr std::array<uint16_t, 256> make_bf16_of_codes() {
  std::array<uint16_t, 256> values{};
  for (size_t code = 0; code < values.size(); ++code) values[code] = float_to_bf16(kE4M3Values[code]);
  return values;
}
constexpr std::array<uint16_t, 256> kBf16OfCodes = make_bf16_of_codes();

void multiply_e4m3(const uint8_t* matrix, const WeightBlock& block, const float* x, size_t rows, float* out,
                   size_t out_stride) {
  thread_local std::vector<uint16_t> widened;
  widened.resize(kRowsAtOnce * block.num_cols);
  const uint64_t row_bytes = e4m3_rows::row_bytes(block.cols);
  for (size_t j = 0; j < block.num_rows; j += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, block.num_rows - j);
    const uint8_t* codes = matrix + (block.first_row + j) * row_bytes;
    for (size_t i = 0; i < count; ++i)
      std::transform(codes + i * row_bytes + block.first_col,
                     codes + i * row_bytes + block.first_col + block.num_cols,
                     widened.data() + i * block.num_cols, [](uint8_t code) { return kBf16OfCodes[code]; });
    matvec(widened.data(), count, block.num_cols, x, rows, out + j, out_stride);
    for (size_t i = 0; i < count; ++i) {
      const float scale = e4m3_rows::scale_of(codes + i * row_bytes, block.cols);
      for (size_t r = 0; r < rows; ++r) out[r * out_stride + j + i] *= scale;
    }
  }
}

void multiply_int4(DType dtype, const uint8_t* matrix, const WeightBlock& block, const float* x, size_t rows,
                   float* out, size_t out_stride) {
  const uint32_t group = group_of(dtype);
  const uint64_t row_bytes = int4_rows::row_bytes(block.cols, group);
  const uint8_t* first = matrix + block.first_row * row_bytes;
  matvec(Int4WeightRows{first, block.cols, block.first_col, group}, block.num_rows, block.num_cols, x, rows,
         out, out_stride);
  for (size_t j = 0; j < block.num_rows; ++j) {
    const float scale = int4_rows::scale_of(first + j * row_bytes, block.cols, group);
    for (size_t r = 0; r < rows; ++r) out[r * out_stride + j] *= scale;
  }
}

// Writes the block's columns of a row, rounded to fp16, in the order of matvec_row().
void widen_int4(const uint8_t* row, const WeightBlock& block, uint32_t group, float* out) {
  constexpr size_t kHalf = kMatvecLanes / 2;
  for (size_t k = 0; k < block.num_cols; k += group) {
    const uint32_t word = int4_rows::word_of(row, block.cols, (block.first_col + k) / group);
    std::array<float, int4::kCodes> values;
    for (uint32_t code = 0; code < values.size(); ++code) values[code] = int4::value_in_fp16(word, code);
    for (size_t i = 0; i < group; ++i) {
      const size_t in_step = i % kMatvecLanes;
      out[k + i - in_step + in_step / 2 + in_step % 2 * kHalf] =
          values[int4_rows::code_of(row, block.first_col + k + i)];
    }
  }
}

void multiply_int4_in_fp16(DType dtype, const uint8_t* matrix, const WeightBlock& block, const float* x,
                           size_t rows, float* out, size_t out_stride) {
  thread_local std::vector<float> widened;
  widened.resize(kRowsAtOnce * block.num_cols);
  const uint32_t group = group_of(dtype);
  const uint64_t row_bytes = int4_rows::row_bytes(block.cols, group);
  for (size_t j = 0; j < block.num_rows; j += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, block.num_rows - j);
    const uint8_t* first = matrix + (block.first_row + j) * row_bytes;
    for (size_t i = 0; i < count; ++i)
      widen_int4(first + i * row_bytes, block, group, widened.data() + i * block.num_cols);
    matvec(OrderedWeightRows{widened.data(), block.num_cols}, count, block.num_cols, x, rows, out + j,
           out_stride);
    for (size_t i = 0; i < count; ++i) {
      const float scale = int4_rows::scale_of(first + i * row_bytes, block.cols, group);
      for (size_t r = 0; r < rows; ++r) out[r * out_stride + j + i] *= scale;
    }
  }
}

}  // namespace

void multiply_weights(const HostMemory& m, const WeightBlock& block, const float* x, size_t rows, float* out,
                      size_t out_stride) {
  if (m.dtype(block.weights) == DType::kE4M3)
    return multiply_e4m3(m.data<const uint8_t>(block.weights), block, x, rows, out, out_stride);
  if (is_int4(m.dtype(block.weights))) {
    const auto multiply = adds_as_tiles(m.shape().order) ? multiply_int4_in_fp16 : multiply_int4;
    return multiply(m.dtype(block.weights), m.data<const uint8_t>(block.weights), block, x, rows, out,
                    out_stride);
  }
  const uint16_t* first =
      m.data<const uint16_t>(block.weights) + block.first_row * block.cols + block.first_col;
  matvec({first, block.cols}, block.num_rows, block.num_cols, x, rows, out, out_stride);
}

}  // namespace serval
