// Tiles in shared memory, whose 16-byte segments are permuted so that a warp's accesses use all banks.
#pragma once

#include "vm/tiles/types/element.cuh"

namespace serval::tiles {

// Swizzles: position of segment `segment` of row `row` in its row, a permutation of each 8 segments (128
// bytes, all banks).
struct NoSwizzle {
  static constexpr uint32_t kAlignment = 128;
  static constexpr uint32_t kPermutedSegments = 1;
  static constexpr __host__ __device__ uint32_t segment(uint32_t, uint32_t segment) { return segment; }
};
// For accesses to the same segment of eight rows, as in ldmatrix. It is TMA's 128-byte swizzle.
struct OperandSwizzle {
  static constexpr uint32_t kAlignment = 1024;  // of a tile: the copy engine swizzles by address
  static constexpr uint32_t kPermutedSegments = 8;
  static constexpr __host__ __device__ uint32_t segment(uint32_t row, uint32_t segment) {
    return segment ^ (row & 7);
  }
};
// For ldmatrix as well as for eight rows read 16 bytes a lane, two rows and half of their segments at a time.
struct TermSwizzle {
  static constexpr uint32_t kAlignment = 1024;
  static constexpr uint32_t kPermutedSegments = 8;
  static constexpr __host__ __device__ uint32_t segment(uint32_t row, uint32_t segment) {
    return segment ^ ((row & 1) << 2 | (row >> 1 & 3));
  }
};
// For accesses to two neighbouring segments of four rows: pairs of fp32 in an accumulator's layout.
struct AccumulatorSwizzle {
  static constexpr uint32_t kAlignment = 128;
  static constexpr uint32_t kPermutedSegments = 8;
  static constexpr __host__ __device__ uint32_t segment(uint32_t row, uint32_t segment) {
    return segment ^ (row & 3) << 1;
  }
};

template <Element T>
using DefaultSwizzle = std::conditional_t<std::same_as<T, float>, AccumulatorSwizzle, OperandSwizzle>;

template <Element T, int kRowsOf, int kColsOf, class SwizzleOf = DefaultSwizzle<T>>
struct SharedTile {
  using ElementType = T;
  using Swizzle = SwizzleOf;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr uint32_t kSegmentBytes = 16, kSegmentElements = kSegmentBytes / sizeof(T);
  static constexpr uint32_t kRowSegments = kCols / kSegmentElements;
  static_assert(kCols % kSegmentElements == 0, "rows are whole segments");
  static_assert(kRowSegments % 8 == 0 || std::same_as<Swizzle, NoSwizzle>,
                "swizzles permute 8 segments of a row");

  alignas(Swizzle::kAlignment) T data[kRows * kCols];

  static constexpr __host__ __device__ uint32_t offset(uint32_t row, uint32_t col) {
    return row * kCols + Swizzle::segment(row, col / kSegmentElements) * kSegmentElements +
           col % kSegmentElements;
  }
  // Moves the position of (row, col) to that of (row + rows, col + cols), where `rows` is a multiple of 8,
  // `cols` a multiple of a segment, and `cols` and `col` have no bit in common. Costs next to nothing if both
  // are constants. Positions are offsets in elements (kBytes = 1) or addresses in bytes (kBytes: bytes of an
  // element).
  template <uint32_t kBytes>
  static constexpr __host__ __device__ uint32_t moved(uint32_t place, uint32_t rows, uint32_t cols) {
    constexpr uint32_t kPermuted = Swizzle::kPermutedSegments * kSegmentElements;
    return (place ^ cols % kPermuted * kBytes) + (rows * kCols + cols / kPermuted * kPermuted) * kBytes;
  }
  __device__ __forceinline__ T* at(uint32_t row, uint32_t col) { return data + offset(row, col); }
  __device__ __forceinline__ const T* at(uint32_t row, uint32_t col) const { return data + offset(row, col); }
};

}  // namespace serval::tiles
