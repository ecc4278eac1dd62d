// A matrix of small integers, packed into the bytes or 32-bit words of a stored tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace serval {

// Which code of a word lies in its bits 4 i … 4 i + 3 (or 8 i … 8 i + 7).
enum class CodeOrder : uint8_t {
  kAscending,  // code i
  kAwq,        // code kAwqOrder[i]; 4 bits only
};
inline constexpr int kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};

// Points into a mapped file. Immutable and thread-safe.
//
// A word holds neighbouring codes of a row, or of a column if `packs_rows`. With n codes in a word, code
// (row, col) lies in word row_stride · (packs_rows ? row / n : row) + col_stride · (packs_rows ? col : col /
// n).
struct PackedCodes {
  static constexpr int kWordBits = 32;

  const std::byte* data = nullptr;  // of any alignment
  int64_t rows = 0, cols = 0;       // of the codes
  int bits = 8;                     // of a code: 4 or 8
  int container_bits = 8;           // 8: a byte for each code; 32: little-endian words
  bool packs_rows = false;
  int64_t row_stride = 0, col_stride = 0;  // in containers
  CodeOrder order = CodeOrder::kAscending;
  uint32_t addend = 0;  // added to each word, modulo 2^32, before codes are taken from it

  int codes_per_container() const { return container_bits / bits; }
  uint8_t largest() const { return static_cast<uint8_t>((1 << bits) - 1); }

  // The unsigned bits of one code.
  uint8_t at(int64_t row, int64_t col) const;
  // As at(), without the addend.
  uint8_t stored_at(int64_t row, int64_t col) const;

  // The bytes that hold some rows: all bytes of the matrix if its rows are not contiguous.
  std::span<const std::byte> bytes_of_rows(int64_t first_row, int64_t row_count) const;

  // Writes codes [first_row, first_row + row_count) × [first_col, first_col + col_count) row by row. Fastest
  // if row_count and first_col are multiples of 8.
  void read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count, uint8_t* out) const;
};

// Codes of a byte each, [rows, cols].
PackedCodes byte_codes(const std::byte* data, int64_t rows, int64_t cols);
// Words of `bits`-bit codes. `along_rows`: a word holds codes of neighbouring rows. The stored tensor is
// [rows', cols'], where the packed dimension is divided by the codes in a word and rounded up; or, if
// `transposed`, [cols', rows'].
PackedCodes word_codes(const std::byte* data, int bits, int64_t rows, int64_t cols, bool along_rows,
                       bool transposed);

}  // namespace serval
