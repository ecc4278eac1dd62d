#include "models/checkpoint/random_weights.h"

#include <array>
#include <cstddef>

namespace serval {
namespace {

// The bf16 value of each byte: 512 bytes, which stay in the L1 cache.
using ValueTable = std::array<uint16_t, 256>;

template <typename ValueOfByte>
ValueTable make_table(ValueOfByte value_of_byte) {
  ValueTable table;
  for (size_t byte = 0; byte < table.size(); ++byte) table[byte] = value_of_byte(static_cast<int8_t>(byte));
  return table;
}

void fill(std::span<uint16_t> out, uint64_t key, uint64_t first, const ValueTable& table) {
  uint64_t word_index = first / kRandomElementsPerWord;
  size_t i = 0;
  for (; i + kRandomElementsPerWord <= out.size(); i += kRandomElementsPerWord) {
    const uint64_t word = random_word(key, word_index++);
    for (size_t byte = 0; byte < kRandomElementsPerWord; ++byte)
      out[i + byte] = table[(word >> (8 * byte)) & 0xFF];
  }
  for (; i < out.size(); ++i) out[i] = table[static_cast<uint8_t>(random_byte(key, first + i))];
}

}  // namespace

void fill_random_matrix(std::span<uint16_t> out, uint64_t key, uint64_t first, float scale) {
  fill(out, key, first, make_table([scale](int byte) { return random_matrix_value(byte, scale); }));
}

void fill_random_norm(std::span<uint16_t> out, uint64_t key, uint64_t first) {
  fill(out, key, first, make_table(random_norm_value));
}

}  // namespace serval
