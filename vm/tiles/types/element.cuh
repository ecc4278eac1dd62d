// Elements of tiles: e4m3, bf16, fp16 or fp32, and how registers hold them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace serval::tiles {

// 16-bit floating-point numbers in memory; arithmetic happens in fp32 and in the tensor cores.
struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

// 8-bit floating-point numbers (vm/base/e4m3.h): operands of products of a warpgroup.
struct E4m3 {
  uint8_t bits;
};

template <class T>
concept Element8 = std::same_as<T, E4m3>;
template <class T>
concept Element16 = std::same_as<T, Bf16> || std::same_as<T, Fp16>;
template <class T>
concept Element = Element8<T> || Element16<T> || std::same_as<T, float>;

// Neighbours that a lane holds together: two, or four of 8 bits. They take one register for 8-bit and 16-bit
// elements (the first in its lowest bits), two for fp32 or integers.
template <class T>
inline constexpr int kLaneElements = Element8<T> ? 4 : 2;
template <class T>
struct PairOf;
template <Element8 T>
struct PairOf<T> {
  using Type = uint32_t;
};
template <Element16 T>
struct PairOf<T> {
  using Type = uint32_t;
};
template <>
struct PairOf<float> {
  using Type = float2;
};
template <>
struct PairOf<uint32_t> {
  using Type = uint2;
};
template <class T>
using Pair = typename PairOf<T>::Type;

}  // namespace serval::tiles
