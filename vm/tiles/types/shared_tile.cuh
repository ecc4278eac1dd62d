// Tiles in shared memory, with their 16-byte units moved about so that a warp's accesses use all banks.
#pragma once

#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// Where the unit `unit` of row `row` lies in its row: a permutation within each 8 units (128 bytes, all
// banks).
struct NoSwizzle {
  static constexpr uint32_t kAlignment = 128;
  static constexpr uint32_t kPermutedUnits = 1;
  static constexpr __host__ __device__ uint32_t unit(uint32_t, uint32_t unit) { return unit; }
};
// For accesses to the same unit of eight rows, such as ldmatrix makes. It is TMA's 128-byte mode.
struct OperandSwizzle {
  static constexpr uint32_t kAlignment = 1024;  // of a tile: the copy engine swizzles by address
  static constexpr uint32_t kPermutedUnits = 8;
  static constexpr __host__ __device__ uint32_t unit(uint32_t row, uint32_t unit) { return unit ^ (row & 7); }
};
// For both: ldmatrix, and eight rows read 16 bytes a lane, two rows and half of their units at a time.
struct TermSwizzle {
  static constexpr uint32_t kAlignment = 1024;
  static constexpr uint32_t kPermutedUnits = 8;
  static constexpr __host__ __device__ uint32_t unit(uint32_t row, uint32_t unit) {
    return unit ^ ((row & 1) << 2 | (row >> 1 & 3));
  }
};
// For accesses to two neighbouring units of four rows: pairs of fp32 in the layout of an accumulator.
struct AccumulatorSwizzle {
  static constexpr uint32_t kAlignment = 128;
  static constexpr uint32_t kPermutedUnits = 8;
  static constexpr __host__ __device__ uint32_t unit(uint32_t row, uint32_t unit) {
    return unit ^ (row & 3) << 1;
  }
};

template <Element T>
using DefaultSwizzle = std::conditional_t<std::same_as<T, float>, AccumulatorSwizzle, OperandSwizzle>;

template <Element T, int kRowsOf, int kColsOf, class SwizzleOf = DefaultSwizzle<T>>
struct SharedTile {
  using ElementType = T;
  using Swizzle = SwizzleOf;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr uint32_t kUnitBytes = 16, kUnitElements = kUnitBytes / sizeof(T);
  static constexpr uint32_t kRowUnits = kCols / kUnitElements;
  static_assert(kCols % kUnitElements == 0, "rows are whole units");
  static_assert(kRowUnits % 8 == 0 || std::same_as<Swizzle, NoSwizzle>, "swizzles permute 8 units of a row");

  alignas(Swizzle::kAlignment) T data[kRows * kCols];

  static constexpr __host__ __device__ uint32_t offset(uint32_t row, uint32_t col) {
    return row * kCols + Swizzle::unit(row, col / kUnitElements) * kUnitElements + col % kUnitElements;
  }
  // From the place of (row, col) to that of (row + rows, col + cols), where `rows` is a multiple of 8 and
  // `cols` of a unit, with no bit in common with `col`: next to nothing to compute if both are constants.
  // Places are offsets in elements, or addresses in bytes, of which an element has kBytes.
  template <uint32_t kBytes>
  static constexpr __host__ __device__ uint32_t moved(uint32_t place, uint32_t rows, uint32_t cols) {
    constexpr uint32_t kPermuted = Swizzle::kPermutedUnits * kUnitElements;
    return (place ^ cols % kPermuted * kBytes) + (rows * kCols + cols / kPermuted * kPermuted) * kBytes;
  }
  __device__ __forceinline__ T* at(uint32_t row, uint32_t col) { return data + offset(row, col); }
  __device__ __forceinline__ const T* at(uint32_t row, uint32_t col) const { return data + offset(row, col); }
};

}  // namespace serval::tiles
