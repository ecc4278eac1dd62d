#include "models/checkpoint/quantised/quantised_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "fmt/format.h"

#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/base/error.h"
#include "vm/base/int4.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/int4_rows.h"

namespace serval {
namespace {

// Codes are unpacked in tiles. 16 rows: a cache line of words that each hold codes of one row.
constexpr int64_t kTileRows = 16, kTileCols = 512;

template <class T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

void store(float value, float* out) {
  *out = value;
}
void store(float value, uint16_t* out) {
  *out = float_to_bf16(value);
}

struct ScaleAndZero {
  float scale;
  int zero;
};

template <class Out>
void write_e4m3(const uint8_t* codes, int64_t count, float scale, Out* out) {
  for (int64_t i = 0; i < count; ++i) store(kE4M3Values[codes[i]] * scale, out + i);
}

template <class Code, class Out>
void write_integers(const uint8_t* codes, int64_t count, ScaleAndZero block, Out* out) {
  for (int64_t i = 0; i < count; ++i)
    store(static_cast<float>(static_cast<Code>(codes[i]) - block.zero) * block.scale, out + i);
}

// Writes elements of one block.
template <class Out>
void write_run(CodeType type, const uint8_t* codes, int64_t count, ScaleAndZero block, Out* out) {
  if (type == CodeType::kE4M3) return write_e4m3(codes, count, block.scale, out);
  if (type == CodeType::kInt8) return write_integers<int8_t>(codes, count, block, out);
  write_integers<uint8_t>(codes, count, block, out);
}

ScaleAndZero block_values(const QuantisedMatrix& matrix, int64_t row_block, int64_t col_block) {
  return {matrix.scale(row_block, col_block), matrix.zero_point(row_block, col_block)};
}

// Writes elements of a row, from column `first_col` on.
template <class Out>
void write_row(const QuantisedMatrix& matrix, int64_t row, int64_t first_col, int64_t count,
               const uint8_t* codes, Out* out) {
  const int64_t row_block = row / matrix.block_rows, end_col = first_col + count;
  for (int64_t col = first_col; col < end_col;) {
    const int64_t block = col / matrix.block_cols;
    const int64_t end = std::min((block + 1) * matrix.block_cols, end_col);
    write_run(matrix.type, codes + (col - first_col), end - col, block_values(matrix, row_block, block),
              out + (col - first_col));
    col = end;
  }
}

// write_row() for columns whose blocks are not in sequence. `table` is scratch memory.
template <class Out>
void write_scattered_row(const QuantisedMatrix& matrix, int64_t row, int64_t first_col, int64_t count,
                         const uint8_t* codes, std::vector<ScaleAndZero>& table, Out* out) {
  const int64_t row_block = row / matrix.block_rows;
  table.clear();
  for (int64_t block = 0; block * matrix.block_cols < matrix.cols; ++block)
    table.push_back(block_values(matrix, row_block, block));
  for (int64_t i = 0; i < count; ++i) {
    const auto block = static_cast<size_t>(matrix.block_of_col[static_cast<size_t>(first_col + i)]);
    write_run(matrix.type, codes + i, 1, table[block], out + i);
  }
}

template <class Out>
void read_rectangle(const QuantisedMatrix& matrix, int64_t first_row, int64_t row_count, int64_t first_col,
                    int64_t col_count, Out* out) {
  std::array<uint8_t, kTileRows * kTileCols> codes;
  std::vector<ScaleAndZero> table;
  for (int64_t row = 0; row < row_count; row += kTileRows) {
    const int64_t rows = std::min(kTileRows, row_count - row);
    for (int64_t col = 0; col < col_count; col += kTileCols) {
      const int64_t cols = std::min(kTileCols, col_count - col);
      matrix.codes.read(first_row + row, rows, first_col + col, cols, codes.data());
      for (int64_t i = 0; i < rows; ++i) {
        const uint8_t* row_codes = codes.data() + i * cols;
        Out* to = out + (row + i) * col_count + col;
        if (matrix.block_of_col.empty()) {
          write_row(matrix, first_row + row + i, first_col + col, cols, row_codes, to);
        } else {
          write_scattered_row(matrix, first_row + row + i, first_col + col, cols, row_codes, table, to);
        }
      }
    }
  }
}

bool is_in_fp16(float value) {
  return fp16_to_float(float_to_fp16(value)) == value || !std::isfinite(value);
}

// The power of two by which these scales must be divided to be fp16 numbers: 1 if they are, else the one that
// makes the largest of them lie from 2^10 to 2^11, so that its products with codes are fp16 numbers, too. 0
// if that does not make all of them fp16 numbers.
float factor_in_fp16(const std::vector<float>& scales) {
  if (std::ranges::all_of(scales, is_in_fp16)) return 1;
  float largest = 0;
  for (const float value : scales)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  int exponent = 0;
  std::frexp(largest, &exponent);
  constexpr int kLargestExponent = 11;
  const float factor = std::ldexp(1.0F, exponent - kLargestExponent);
  const bool fits = std::ranges::all_of(scales, [&](float value) { return is_in_fp16(value / factor); });
  return fits ? factor : 0;
}

}  // namespace

std::string_view code_type_name(CodeType type) {
  if (type == CodeType::kE4M3) return "e4m3";
  return type == CodeType::kUint4 ? "int4" : "int8";
}

float StoredScales::at(int64_t row_block, int64_t col_block) const {
  const int64_t index = row_block * row_stride + col_block * col_stride;
  switch (type) {
    case StoredType::kF16:
      return fp16_to_float(load<uint16_t>(data, index));
    case StoredType::kBF16:
      return bf16_to_float(load<uint16_t>(data, index));
    case StoredType::kF8E8M0:
      return e8m0_to_float(load<uint8_t>(data, index));
    default:
      return load<float>(data, index);
  }
}

int QuantisedMatrix::zero_point(int64_t row_block, int64_t col_block) const {
  if (!zeros.stored) return zeros.constant;
  const PackedCodes& stored = *zeros.stored;
  if (zeros.refuses_largest && stored.stored_at(row_block, col_block) == stored.largest())
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("{}: group {} of row {}: found {}, which means a zero point of {}; limit: {}", zeros_name,
                    col_block, row_block, stored.largest(), stored.largest() + 1, stored.largest()));
  const uint8_t code = stored.at(row_block, col_block);
  return type == CodeType::kInt8 ? static_cast<int8_t>(code) : code;
}

void QuantisedMatrix::read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count,
                           float* out) const {
  read_rectangle(*this, first_row, row_count, first_col, col_count, out);
}

void QuantisedMatrix::read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count,
                           uint16_t* bf16) const {
  read_rectangle(*this, first_row, row_count, first_col, col_count, bf16);
}

std::string QuantisedMatrix::blamed_for(int64_t row, int64_t col) const {
  const float factor = scale(row / block_rows, col_block(col));
  return std::isfinite(factor) ? codes_name : fmt::format("{}: scale {}", scales_name, factor);
}

void QuantisedMatrix::read_e4m3_rows(int64_t first_row, int64_t row_count, uint8_t* to) const {
  for (int64_t row = first_row; row < first_row + row_count; ++row) {
    codes.read(row, 1, 0, cols, to);
    e4m3_rows::set_scale(to, static_cast<uint64_t>(cols), scale(row / block_rows, 0));
    to += e4m3_rows::row_bytes(static_cast<uint64_t>(cols));
  }
}

DType QuantisedMatrix::int4_type() const {
  const bool fits = scales.type != StoredType::kF32 || wide_scales_fit;
  if (type != CodeType::kUint4 || block_rows != 1 || !block_of_col.empty() || !fits) return DType::kBF16;
  for (const DType dtype : {DType::kInt4G128, DType::kInt4G64, DType::kInt4G32}) {
    const int64_t group = group_of(dtype);
    if (cols % group == 0 && (block_cols == group || block_cols >= cols)) return dtype;
  }
  return DType::kBF16;
}

bool QuantisedMatrix::scales_fit_fp16() const {
  std::vector<float> row_scales;
  for (int64_t row = 0; row * block_rows < rows; ++row) {
    row_scales.clear();
    for (int64_t block = 0; block * block_cols < cols; ++block) row_scales.push_back(scale(row, block));
    if (factor_in_fp16(row_scales) == 0) return false;
  }
  return true;
}

void QuantisedMatrix::read_int4_rows(DType dtype, int64_t first_row, int64_t row_count, uint8_t* to) const {
  const uint32_t group = group_of(dtype);
  const auto width = static_cast<uint64_t>(cols), row_bytes = int4_rows::row_bytes(width, group);
  std::vector<uint8_t> unpacked(static_cast<size_t>(kTileRows * cols));
  std::vector<float> row_scales;
  for (int64_t row = 0; row < row_count; ++row, to += row_bytes) {
    if (row % kTileRows == 0)
      codes.read(first_row + row, std::min(kTileRows, row_count - row), 0, cols, unpacked.data());
    const uint8_t* from = unpacked.data() + row % kTileRows * cols;
    for (uint64_t col = 0; col < width; col += 2) int4_rows::set_pair(to, col, from[col], from[col + 1]);
    int4_rows::clear_padding(to, width);
    row_scales.clear();
    for (int64_t block = 0; block * block_cols < cols; ++block)
      row_scales.push_back(scale(first_row + row, block));
    const float of_row = factor_in_fp16(row_scales);
    if (of_row == 0)
      throw Error(ErrorKind::kRuntime,
                  fmt::format("{}: row {}: fp16 cannot hold its scales; --weights bf16 (weights=\"bf16\") "
                              "dequantises them",
                              scales_name, first_row + row));
    for (int64_t first = 0; first < cols; first += group) {
      const int64_t block = first / block_cols;
      const uint16_t in_fp16 = float_to_fp16(row_scales[static_cast<size_t>(block)] / of_row);
      int4_rows::set_word(
          to, width, static_cast<uint64_t>(first / group),
          int4::word_with_zero_point(in_fp16, static_cast<uint32_t>(zero_point(first_row + row, block))));
    }
    int4_rows::set_scale(to, width, group, of_row);
  }
}

void QuantisedMatrix::read_elements(int64_t first, int64_t count, uint16_t* bf16) const {
  while (count > 0) {
    const int64_t row = first / cols, col = first % cols;
    const int64_t whole_rows = col == 0 ? count / cols : 0;
    const int64_t width = whole_rows > 0 ? cols : std::min(count, cols - col);
    const int64_t done = std::max<int64_t>(whole_rows, 1) * width;
    read(row, std::max<int64_t>(whole_rows, 1), col, width, bf16);
    bf16 += done;
    first += done;
    count -= done;
  }
}

}  // namespace serval
