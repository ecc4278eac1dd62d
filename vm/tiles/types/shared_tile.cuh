// Tiles in shared memory, with their 16-byte units moved about so that a warp's accesses use all banks.
#pragma once

#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// Where the unit `unit` of row `row` lies in its row: a permutation within each 8 units (128 bytes, all
// banks).
struct NoSwizzle {
  static constexpr __host__ __device__ uint32_t unit(uint32_t, uint32_t unit) { return unit; }
};
// For a tile that is loaded with wide columns: eight lanes read half of a row's units, and of the next row's.
struct WideSwizzle {
  static constexpr __host__ __device__ uint32_t unit(uint32_t row, uint32_t unit) {
    return unit ^ (row & 1) << 2;
  }
};
// For a warp that stores an accumulator with wide rows transposed: eight lanes write four rows, 2 apart, and
// in each two units, 2 apart.
struct TransposeSwizzle {
  static constexpr __host__ __device__ uint32_t unit(uint32_t row, uint32_t unit) {
    return unit ^ ((row >> 1 & 1) | (row & 4));
  }
};

template <Element T, int kRowsOf, int kColsOf, class SwizzleOf = NoSwizzle>
struct SharedTile {
  using ElementType = T;
  using Swizzle = SwizzleOf;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr uint32_t kUnitElements = 16 / sizeof(T);
  static_assert(kCols * sizeof(T) % 128 == 0, "swizzles permute 128 bytes of a row");

  alignas(128) T data[kRows * kCols];

  static constexpr __host__ __device__ uint32_t offset(uint32_t row, uint32_t col) {
    return row * kCols + Swizzle::unit(row, col / kUnitElements) * kUnitElements + col % kUnitElements;
  }
  __device__ __forceinline__ T* at(uint32_t row, uint32_t col) { return data + offset(row, col); }
  __device__ __forceinline__ const T* at(uint32_t row, uint32_t col) const { return data + offset(row, col); }
};

}  // namespace serval::tiles
