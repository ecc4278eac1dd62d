// Rows of a matrix of 4-bit weights in host memory: a row's codes, then the words of its groups
// (vm/base/int4.h), then the row's scale. An element is its code's value times the scale of its row, which is
// a power of two.
//
// Codes are in blocks of 128 columns, the last one padded. A block is 16 words of 32 bits: word i has columns
// 2 i and 2 i + 1 of each of the block's four 32 columns, in the order of vectors that multiply even and odd
// columns of 32 (instructions/common/matvec.h), so that shifts of a block's vector give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace serval::int4_rows {

inline constexpr uint32_t kBlockCols = 128, kBlockBytes = 64;
inline constexpr uint32_t kStepCols = 32;  // columns of which a word has two
inline constexpr uint32_t kSmallestGroup = 32;

constexpr uint64_t code_bytes(uint64_t cols) {
  return (cols + kBlockCols - 1) / kBlockCols * kBlockBytes;
}
constexpr uint64_t groups(uint64_t cols, uint32_t group) {
  return (cols + group - 1) / group;
}
// A row of `cols` columns in groups of `group` takes this many bytes. cols is a multiple of `group`.
constexpr uint64_t row_bytes(uint64_t cols, uint32_t group) {
  return code_bytes(cols) + groups(cols, group) * sizeof(uint32_t) + sizeof(float);
}
// The byte of a column's code; an odd column is in its upper half.
constexpr uint64_t byte_of(uint64_t col) {
  const uint64_t in_block = col % kBlockCols;
  return col / kBlockCols * kBlockBytes + in_block % kStepCols / 2 * sizeof(uint32_t) + in_block / kStepCols;
}
inline uint32_t code_of(const uint8_t* row, uint64_t col) {
  return row[byte_of(col)] >> (col % 2 * 4) & 0xF;
}
// Sets the codes of columns `col`, an even one, and col + 1.
inline void set_pair(uint8_t* row, uint64_t col, uint32_t even, uint32_t odd) {
  row[byte_of(col)] = static_cast<uint8_t>(even | odd << 4);
}
// Sets the codes of the padding to 0.
inline void clear_padding(uint8_t* row, uint64_t cols) {
  for (uint64_t col = cols; col < code_bytes(cols) * 2; col += 2) set_pair(row, col, 0, 0);
}
inline uint32_t word_of(const uint8_t* row, uint64_t cols, uint64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, row + code_bytes(cols) + index * sizeof word, sizeof word);
  return word;
}
inline void set_word(uint8_t* row, uint64_t cols, uint64_t index, uint32_t word) {
  std::memcpy(row + code_bytes(cols) + index * sizeof word, &word, sizeof word);
}
inline float scale_of(const uint8_t* row, uint64_t cols, uint32_t group) {
  float scale = 0;
  std::memcpy(&scale, row + row_bytes(cols, group) - sizeof scale, sizeof scale);
  return scale;
}
inline void set_scale(uint8_t* row, uint64_t cols, uint32_t group, float scale) {
  std::memcpy(row + row_bytes(cols, group) - sizeof scale, &scale, sizeof scale);
}

}  // namespace serval::int4_rows
