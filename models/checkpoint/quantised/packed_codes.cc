#include "models/checkpoint/quantised/packed_codes.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace serval {
namespace {

constexpr int kNibblesOfWord = 8;

constexpr std::array<int, kNibblesOfWord> inverse_awq_order() {
  std::array<int, kNibblesOfWord> place{};
  for (int i = 0; i < kNibblesOfWord; ++i) place[static_cast<size_t>(kAwqOrder[i])] = i;
  return place;
}
constexpr std::array<int, kNibblesOfWord> kAwqPlace = inverse_awq_order();

uint32_t load_word(const std::byte* data, int64_t index) {
  uint32_t word;
  std::memcpy(&word, data + index * static_cast<int64_t>(sizeof word), sizeof word);
  return word;
}

// Nibble i of the word becomes byte i.
uint64_t spread_nibbles(uint32_t word) {
  uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000'FFFF'0000'FFFF;
  bytes = (bytes | bytes << 8) & 0x00FF'00FF'00FF'00FF;
  return (bytes | bytes << 4) & 0x0F0F'0F0F'0F0F'0F0F;
}

uint64_t spread(uint32_t word, int bits) {
  return bits == 4 ? spread_nibbles(word) : word;
}

uint8_t code_of(const PackedCodes& codes, int64_t row, int64_t col, uint32_t addend) {
  if (codes.container_bits == 8)
    return static_cast<uint8_t>(codes.data[row * codes.row_stride + col * codes.col_stride]);
  const int count = codes.codes_per_container();
  const int64_t packed = codes.packs_rows ? row : col;
  const int64_t word_row = codes.packs_rows ? row / count : row;
  const int64_t word_col = codes.packs_rows ? col : col / count;
  int place = static_cast<int>(packed % count);
  if (codes.order == CodeOrder::kAwq) place = kAwqPlace[static_cast<size_t>(place)];
  const uint32_t word =
      load_word(codes.data, word_row * codes.row_stride + word_col * codes.col_stride) + addend;
  return static_cast<uint8_t>(word >> (place * codes.bits) & codes.largest());
}

// PackedCodes::read() for words that hold codes of neighbouring rows.
void read_words_of_rows(const PackedCodes& codes, int64_t first_row, int64_t row_count, int64_t first_col,
                        int64_t col_count, uint8_t* out) {
  const int count = codes.codes_per_container();
  const int64_t end_row = first_row + row_count;
  for (int64_t word_row = first_row / count; word_row * count < end_row; ++word_row) {
    for (int64_t col = 0; col < col_count; ++col) {
      const uint32_t word =
          load_word(codes.data, word_row * codes.row_stride + (first_col + col) * codes.col_stride) +
          codes.addend;
      const uint64_t bytes = spread(word, codes.bits);
      for (int place = 0; place < count; ++place) {
        const int within = codes.order == CodeOrder::kAwq ? kAwqOrder[place] : place;
        const int64_t row = word_row * count + within - first_row;
        if (row >= 0 && row < row_count)
          out[row * col_count + col] = static_cast<uint8_t>(bytes >> (8 * place));
      }
    }
  }
}

}  // namespace

uint8_t PackedCodes::at(int64_t row, int64_t col) const {
  return code_of(*this, row, col, addend);
}

uint8_t PackedCodes::stored_at(int64_t row, int64_t col) const {
  return code_of(*this, row, col, 0);
}

void PackedCodes::read(int64_t first_row, int64_t row_count, int64_t first_col, int64_t col_count,
                       uint8_t* out) const {
  const auto one_by_one = [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t col = begin; col < end; ++col)
      out[(row - first_row) * col_count + col - first_col] = at(row, col);
  };
  const int64_t end_row = first_row + row_count, end_col = first_col + col_count;
  const int count = codes_per_container();
  if (container_bits == 8 && col_stride == 1) {
    for (int64_t row = 0; row < row_count; ++row)
      std::memcpy(out + row * col_count, data + (first_row + row) * row_stride + first_col,
                  static_cast<size_t>(col_count));
  } else if (container_bits == kWordBits && !packs_rows && order == CodeOrder::kAscending) {
    const int64_t whole_begin = std::min((first_col + count - 1) / count * count, end_col);
    const int64_t whole_end = std::max(whole_begin, end_col / count * count);
    for (int64_t row = first_row; row < end_row; ++row) {
      one_by_one(row, first_col, whole_begin);
      uint8_t* to = out + (row - first_row) * col_count + whole_begin - first_col;
      for (int64_t col = whole_begin; col < whole_end; col += count, to += count) {
        const uint32_t word = load_word(data, row * row_stride + col / count * col_stride) + addend;
        const uint64_t bytes = spread(word, bits);
        std::memcpy(to, &bytes, static_cast<size_t>(count));
      }
      one_by_one(row, whole_end, end_col);
    }
  } else if (container_bits == kWordBits && packs_rows) {
    read_words_of_rows(*this, first_row, row_count, first_col, col_count, out);
  } else {
    for (int64_t row = first_row; row < end_row; ++row) one_by_one(row, first_col, end_col);
  }
}

std::span<const std::byte> PackedCodes::bytes_of_rows(int64_t first_row, int64_t row_count) const {
  const int64_t container_bytes = container_bits / 8;
  if (col_stride == 1 && !packs_rows)
    return {data + first_row * row_stride * container_bytes,
            static_cast<size_t>(row_count * row_stride * container_bytes)};
  const int64_t count = codes_per_container();
  const int64_t word_rows = packs_rows ? (rows + count - 1) / count : rows;
  const int64_t word_cols = packs_rows ? cols : (cols + count - 1) / count;
  return {data, static_cast<size_t>(word_rows * word_cols * container_bytes)};
}

PackedCodes byte_codes(const std::byte* data, int64_t rows, int64_t cols) {
  return {.data = data, .rows = rows, .cols = cols, .row_stride = cols, .col_stride = 1};
}

PackedCodes word_codes(const std::byte* data, int bits, int64_t rows, int64_t cols, bool along_rows,
                       bool transposed) {
  const int64_t count = PackedCodes::kWordBits / bits;
  const int64_t word_rows = along_rows ? (rows + count - 1) / count : rows;
  const int64_t word_cols = along_rows ? cols : (cols + count - 1) / count;
  return {.data = data,
          .rows = rows,
          .cols = cols,
          .bits = bits,
          .container_bits = PackedCodes::kWordBits,
          .packs_rows = along_rows,
          .row_stride = transposed ? 1 : word_cols,
          .col_stride = transposed ? word_rows : 1};
}

}  // namespace serval
