// Random weights: each element is a pure function of (seed, tensor name, index) and exact in bf16.
//
// docs/random_weights.md defines the values; tools/random_weights.py computes the same values. Functions that
// take a key are constexpr arithmetic, so that GPU kernels can call them. Each 64-bit word of the random
// sequence holds eight elements.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace serval {

inline constexpr uint64_t kRandomElementsPerWord = 8;

// Finaliser and increment of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators").
constexpr uint64_t splitmix64_mix(uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}
inline constexpr uint64_t kSplitmix64Increment = 0x9E3779B97F4A7C15U;

// Key of a tensor: 64-bit FNV-1a of its name, XORed with the mixed seed and mixed again.
constexpr uint64_t random_tensor_key(std::string_view tensor_name, uint64_t seed) noexcept {
  constexpr uint64_t kFnvOffset = 0xCBF29CE484222325U;
  constexpr uint64_t kFnvPrime = 0x100000001B3U;
  uint64_t hash = kFnvOffset;
  for (const char c : tensor_name) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return splitmix64_mix(hash ^ splitmix64_mix(seed));
}

// Elements 8w … 8w + 7 of a tensor are the bytes of word w, lowest byte first.
constexpr uint64_t random_word(uint64_t key, uint64_t word) noexcept {
  return splitmix64_mix(key + (word + 1) * kSplitmix64Increment);
}

// −128 … 127.
constexpr int random_byte(uint64_t key, uint64_t index) noexcept {
  const uint64_t word = random_word(key, index / kRandomElementsPerWord);
  return static_cast<int8_t>(word >> (8 * (index % kRandomElementsPerWord)));
}

// 2^−(7+e) for the smallest e with 4^e ≥ columns. For activations with mean square 1, the output of a row of
// weights then has a standard deviation between 0.58 and 1.16 for any number of columns. Requires columns
// ≥ 1.
constexpr float random_matrix_scale(int64_t columns) noexcept {
  float scale = 0x1p-7F;
  for (int64_t reach = 1; reach < columns; reach *= 4) scale *= 0.5F;
  return scale;
}

// An odd integer of at most 8 bits times a power of two, so exact in bf16. Symmetric about 0 and never 0.
constexpr uint16_t random_matrix_value(int byte, float scale) noexcept {
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, static_cast<float>(2 * byte + 1) * scale) >> 16);
}

// 1 + s/128 with −16 ≤ s ≤ 15, exact in bf16.
constexpr uint16_t random_norm_value(int byte) noexcept {
  constexpr int kOne = 128;
  const float value = static_cast<float>(kOne + (byte >> 3)) / static_cast<float>(kOne);
  return static_cast<uint16_t>(__builtin_bit_cast(uint32_t, value) >> 16);
}

constexpr uint16_t random_matrix_element(uint64_t key, uint64_t index, float scale) noexcept {
  return random_matrix_value(random_byte(key, index), scale);
}
constexpr uint16_t random_norm_element(uint64_t key, uint64_t index) noexcept {
  return random_norm_value(random_byte(key, index));
}

// Writes elements [first, first + out.size()) with the values of the functions above, in about one cycle per
// element, on the calling thread. `first` must be a multiple of kRandomElementsPerWord.
void fill_random_matrix(std::span<uint16_t> out, uint64_t key, uint64_t first, float scale);
void fill_random_norm(std::span<uint16_t> out, uint64_t key, uint64_t first);

}  // namespace serval
