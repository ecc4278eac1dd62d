// Elements of tiles: bf16, fp16 or fp32, which registers hold in pairs.
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

template <class T>
concept Element16 = std::same_as<T, Bf16> || std::same_as<T, Fp16>;
template <class T>
concept Element = Element16<T> || std::same_as<T, float>;

// Two neighbours: one register for 16-bit elements (the first in its lower half), two for fp32 or integers.
template <class T>
struct PairOf;
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
