// A weight matrix that a checkpoint stores in 8 or 4 bits: its integers (codes), scales and zero points as
// they are stored, whatever layout the file has. Nothing is quantised again and nothing is copied.
//
// Element (row, col) has the value scale · (code − zero point). Scale and zero point are those of its block
// of block_rows × block_cols elements: of the whole matrix, of a row, of a group of a row's columns, or of a
// block of 128 × 128.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/quantised/packed_codes.h"
#include "models/checkpoint/safetensors.h"
#include "vm/dtype.h"

namespace serval {

enum class CodeType : uint8_t {
  kE4M3,  // an 8-bit float; its zero point is 0
  kInt8,  // two's complement
  kUint8,
  kUint4,  // signed 4-bit integers are stored with 8 added, and have the zero point 8
};

// "e4m3", "int8" or "int4".
std::string_view code_type_name(CodeType type);

// Scales, [row blocks, column blocks], in a tensor of type F32, F16, BF16 or F8_E8M0. Points into a mapped
// file.
struct StoredScales {
  const std::byte* data = nullptr;
  StoredType type = StoredType::kF32;
  int64_t row_stride = 0, col_stride = 0;  // in elements

  float at(int64_t row_block, int64_t col_block) const;
};

// Zero points, [row blocks, column blocks]: one constant, or stored integers of the same range as the codes.
struct ZeroPoints {
  int constant = 0;
  std::optional<PackedCodes> stored;
  // The file stores zero points less one, so that the largest integer would mean a zero point out of range.
  bool refuses_largest = false;
};

// Immutable and thread-safe. Valid as long as the checkpoint that it was read from.
struct QuantisedMatrix {
  CodeType type = CodeType::kE4M3;
  int64_t rows = 0, cols = 0;
  PackedCodes codes;  // [rows, cols]
  int64_t block_rows = 1, block_cols = 1;
  StoredScales scales;
  ZeroPoints zeros;
  // Column block of each column if these are not in sequence (GPTQ's and compressed-tensors' g_idx, "act
  // order"); empty: col / block_cols. Columns themselves are stored in their own order.
  std::vector<int32_t> block_of_col;
  // scales_fit_fp16() of 4-bit integers with scales in fp32: few such files have scales that do.
  bool wide_scales_fit = false;
  std::string codes_name, scales_name, zeros_name;  // "FILE: tensor NAME", for error lines

  // Writes the values of elements [first_row, first_row + row_count) × [first_col, first_col + col_count),
  // row by row: rounded once to fp32, then to the nearest bf16. The elements must exist. Throws
  // Error(kRuntime) for a zero point out of range; values that are not finite are written.
  void read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count, float* out) const;
  void read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count, uint16_t* bf16) const;
  // Writes `count` elements from row-major index `first` on.
  void read_elements(int64_t first, int64_t count, uint16_t* bf16) const;

  // True if codes are e4m3 and the elements of a row share a scale, which other rows may have, too.
  bool has_e4m3_rows() const { return type == CodeType::kE4M3 && block_cols >= cols; }
  // Writes codes and scales of rows as they are stored: [row_count] of e4m3_rows::row_bytes(cols), which
  // vm/layout/e4m3_rows.h describes. Scales are widened to fp32, which is exact. NaN and infinity are
  // written. Requires has_e4m3_rows().
  void read_e4m3_rows(int64_t first_row, int64_t row_count, uint8_t* to) const;

  // The type of 4-bit integers that holds codes, scales and zero points as they are: columns of a group are
  // neighbours, and 32, 64, 128 or a whole row, which becomes equal groups; scales have 16 bits or less, or
  // are in fp32 and fit (see wide_scales_fit). kBF16 if there is none. Scales of 16 bits may still be numbers
  // that fp16 cannot hold.
  DType int4_type() const;
  // Reads all scales: true if for each row a power of two makes them fp16 numbers.
  bool scales_fit_fp16() const;
  // True if a matrix in memory of type `dtype` can hold codes and scales as they are.
  bool keeps_codes_in(DType dtype) const {
    if (dtype == DType::kE4M3) return has_e4m3_rows();
    return is_int4(dtype) && is_int4(int4_type()) && group_of(int4_type()) % group_of(dtype) == 0;
  }
  // Writes rows as they are stored: [row_count] of int4_rows::row_bytes(cols, group), which
  // vm/layout/int4_rows.h describes. `dtype`: int4_type(), or one of smaller groups that divide it. The scale
  // of a row is 1, or the power of two that makes the scales of its groups fp16 numbers, exactly. Throws
  // Error(kRuntime) if none does, and as read().
  void read_int4_rows(DType dtype, int64_t first_row, int64_t row_count, uint8_t* to) const;

  int64_t col_block(int64_t col) const {
    return block_of_col.empty() ? col / block_cols : block_of_col[static_cast<size_t>(col)];
  }
  float scale(int64_t row_block, int64_t col_block) const { return scales.at(row_block, col_block); }
  // For the error line about an element that is not finite: the tensor to blame, with the scale if that is
  // not finite.
  std::string blamed_for(int64_t row, int64_t col) const;
  // Throws as read().
  int zero_point(int64_t row_block, int64_t col_block) const;
};

}  // namespace serval
