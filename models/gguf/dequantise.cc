#include "models/gguf/dequantise.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "vm/base/bf16.h"

namespace serval {
namespace {

constexpr size_t kSmallBlock = 32;
constexpr size_t kSuperBlock = 256;

// Reads the fields of a block in order.
class Block {
 public:
  Block(const std::byte* first_block, size_t index, size_t bytes)
      : at_(reinterpret_cast<const uint8_t*>(first_block) + index * bytes) {}

  const uint8_t* bytes(size_t count) {
    const uint8_t* begin = at_;
    at_ += count;
    return begin;
  }
  float half() {
    uint16_t bits;
    std::memcpy(&bits, bytes(sizeof bits), sizeof bits);
    return fp16_to_float(bits);
  }
  uint32_t word() {
    uint32_t bits;
    std::memcpy(&bits, bytes(sizeof bits), sizeof bits);
    return bits;
  }

 private:
  const uint8_t* at_;
};

constexpr int low_nibble(uint8_t byte) {
  return byte & 0xF;
}
constexpr int high_nibble(uint8_t byte) {
  return byte >> 4;
}

// Element j of a small block is the low nibble of byte j, element 16 + j the high nibble. Bit i of
// `high_bits` is the fifth bit of element i; pass 0 for types of four bits.
constexpr int nibble_of(const uint8_t* packed, uint32_t high_bits, size_t element) {
  constexpr size_t kHalf = kSmallBlock / 2;
  const int low = element < kHalf ? low_nibble(packed[element]) : high_nibble(packed[element - kHalf]);
  return low | static_cast<int>((high_bits >> element & 1) << 4);
}

// Q4_K and Q5_K pack eight scales and eight minima of 6 bits into 12 bytes.
struct SixBitPair {
  int scale, minimum;
};
constexpr SixBitPair six_bit_pair(const uint8_t* packed, size_t group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {low_nibble(packed[group + 4]) | packed[group - 4] >> 6 << 4,
          high_nibble(packed[group + 4]) | packed[group] >> 6 << 4};
}

// Q3_K packs sixteen scales of 6 bits into 12 bytes: first the lower four bits of all, then the upper two
// bits.
constexpr int six_bit_scale(const uint8_t* packed, size_t group) {
  const uint8_t low = packed[group % 8];
  const int high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
  return (group < 8 ? low_nibble(low) : high_nibble(low)) | high << 4;
}

}  // namespace

void decode_f32(const std::byte* first_block, size_t blocks, float* out) {
  std::memcpy(out, first_block, blocks * sizeof(float));
}

void decode_f16(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) out[i] = Block(first_block, i, sizeof(uint16_t)).half();
}

void decode_bf16(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) {
    uint16_t bits;
    std::memcpy(&bits, first_block + i * sizeof bits, sizeof bits);
    out[i] = bf16_to_float(bits);
  }
}

void decode_q8_0(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 2 + kSmallBlock);
    const float d = block.half();
    const uint8_t* q = block.bytes(kSmallBlock);
    for (size_t i = 0; i < kSmallBlock; ++i) *out++ = static_cast<float>(static_cast<int8_t>(q[i])) * d;
  }
}

void decode_q4_0(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 18);
    const float d = block.half();
    const uint8_t* q = block.bytes(16);
    for (size_t i = 0; i < kSmallBlock; ++i) *out++ = d * static_cast<float>(nibble_of(q, 0, i) - 8);
  }
}

void decode_q4_1(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 20);
    const float d = block.half(), m = block.half();
    const uint8_t* q = block.bytes(16);
    for (size_t i = 0; i < kSmallBlock; ++i) *out++ = d * static_cast<float>(nibble_of(q, 0, i)) + m;
  }
}

void decode_q5_0(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 22);
    const float d = block.half();
    const uint32_t high = block.word();
    const uint8_t* q = block.bytes(16);
    for (size_t i = 0; i < kSmallBlock; ++i) *out++ = d * static_cast<float>(nibble_of(q, high, i) - 16);
  }
}

void decode_q5_1(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 24);
    const float d = block.half(), m = block.half();
    const uint32_t high = block.word();
    const uint8_t* q = block.bytes(16);
    for (size_t i = 0; i < kSmallBlock; ++i) *out++ = d * static_cast<float>(nibble_of(q, high, i)) + m;
  }
}

// Each 16 elements have a scale and a minimum of 4 bits. Element i is in byte 32 (i / 128) + i % 32, at bit
// 2 (i / 32 % 4).
void decode_q2_k(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 84);
    const uint8_t* scales = block.bytes(16);
    const uint8_t* q = block.bytes(64);
    const float d = block.half(), m = block.half();
    for (size_t i = 0; i < kSuperBlock; ++i) {
      const float scale = d * static_cast<float>(low_nibble(scales[i / 16]));
      const float minimum = m * static_cast<float>(high_nibble(scales[i / 16]));
      const int two_bits = q[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
      *out++ = scale * static_cast<float>(two_bits) - minimum;
    }
  }
}

// Two bits of an element are stored as in Q2_K. The third is bit i / 32 of byte i % 32 of the mask; if it is
// 0, 4 is subtracted.
void decode_q3_k(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 110);
    const uint8_t* mask = block.bytes(32);
    const uint8_t* q = block.bytes(64);
    const uint8_t* scales = block.bytes(12);
    const float d = block.half();
    for (size_t i = 0; i < kSuperBlock; ++i) {
      const float scale = d * static_cast<float>(six_bit_scale(scales, i / 16) - 32);
      const int two_bits = q[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
      const int less = (mask[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4;
      *out++ = scale * static_cast<float>(two_bits - less);
    }
  }
}

// Element i is in byte 32 (i / 64) + i % 32: in the low nibble if i / 32 is even, in the high nibble if it is
// odd.
void decode_q4_k(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 144);
    const float d = block.half(), m = block.half();
    const uint8_t* scales = block.bytes(12);
    const uint8_t* q = block.bytes(128);
    for (size_t group = 0; group < 8; ++group) {
      const SixBitPair pair = six_bit_pair(scales, group);
      const float scale = d * static_cast<float>(pair.scale), minimum = m * static_cast<float>(pair.minimum);
      for (size_t i = 0; i < 32; ++i) {
        const uint8_t byte = q[group / 2 * 32 + i];
        const int four_bits = group % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
        *out++ = scale * static_cast<float>(four_bits) - minimum;
      }
    }
  }
}

// As Q4_K, with a fifth bit: bit i / 32 of byte i % 32 of `high`.
void decode_q5_k(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 176);
    const float d = block.half(), m = block.half();
    const uint8_t* scales = block.bytes(12);
    const uint8_t* high = block.bytes(32);
    const uint8_t* q = block.bytes(128);
    for (size_t group = 0; group < 8; ++group) {
      const SixBitPair pair = six_bit_pair(scales, group);
      const float scale = d * static_cast<float>(pair.scale), minimum = m * static_cast<float>(pair.minimum);
      for (size_t i = 0; i < 32; ++i) {
        const uint8_t byte = q[group / 2 * 32 + i];
        const int four_bits = group % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
        *out++ = scale * static_cast<float>(four_bits | (high[i] >> group & 1) << 4) - minimum;
      }
    }
  }
}

// A block has two halves of 128 elements. Element i of a half has its lower four bits in byte 64 half + i %
// 64 (low nibble for i < 64, else high nibble) and its upper two bits in byte 32 half + i % 32, at bit 2 (i /
// 32).
void decode_q6_k(const std::byte* first_block, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b) {
    Block block(first_block, b, 210);
    const uint8_t* low = block.bytes(128);
    const uint8_t* high = block.bytes(64);
    const uint8_t* scales = block.bytes(16);
    const float d = block.half();
    for (size_t element = 0; element < kSuperBlock; ++element) {
      const size_t half = element / 128, i = element % 128;
      const float scale = d * static_cast<float>(static_cast<int8_t>(scales[element / 16]));
      const uint8_t byte = low[64 * half + i % 64];
      const int four_bits = i < 64 ? low_nibble(byte) : high_nibble(byte);
      const int two_bits = high[32 * half + i % 32] >> (2 * (i / 32)) & 3;
      *out++ = scale * static_cast<float>((four_bits | two_bits << 4) - 32);
    }
  }
}

}  // namespace serval
