// Tiles and vectors in the registers of a warpgroup (four consecutive warps).
#pragma once

#include "vm/ptx/ptx.cuh"
#include "vm/tiles/sm90/tensor_map.cuh"

namespace serval::tiles::warpgroup {

inline constexpr uint32_t kWarps = 4;
inline constexpr uint32_t kThreads = kWarps * kWarpThreads;
inline constexpr int kRowsOfWarp = 16;
inline constexpr int kRowsOfProduct = 64;  // rows of one instruction: 16 of each warp

// A matrix of kRows × kCols. Warp w of the warpgroup has rows 64 i + 16 w to 64 i + 16 w + 15 in part[i], a
// tile of its own, on which all operations of one warp work.
template <Element T, int kRowsOf, int kColsOf>
struct RegisterTile {
  using ElementType = T;
  using Part = tiles::RegisterTile<T, kRowsOfWarp, kColsOf>;
  static constexpr int kRows = kRowsOf, kCols = kColsOf;
  static constexpr int kParts = kRows / kRowsOfProduct;
  static_assert(kRows > 0 && kRows % kRowsOfProduct == 0, "a warpgroup's tile has a multiple of 64 rows");

  Part part[kParts];

  // First row of part `i` of warp `warp` of the warpgroup.
  static constexpr __host__ __device__ uint32_t first_row(int i, uint32_t warp) {
    return static_cast<uint32_t>(i) * kRowsOfProduct + warp * kRowsOfWarp;
  }
};
// What products add to.
template <int kRows, int kCols>
using Accumulator = RegisterTile<float, kRows, kCols>;

// One element for each row of a tile; the lanes that hold a part of the row hold its element.
template <class Tile, class T = float>
struct RowVector {
  using ElementType = T;
  tiles::RowVector<typename Tile::Part, T> part[Tile::kParts];
};

// One element for each column; all warps hold the same columns.
template <class Tile, class T = float>
using ColumnVector = tiles::ColumnVector<typename Tile::Part, T>;

template <class T>
inline constexpr bool kIsRegisterTile = false;
template <class T, int kRows, int kCols>
inline constexpr bool kIsRegisterTile<RegisterTile<T, kRows, kCols>> = true;
template <class T>
concept AnyRegisterTile = kIsRegisterTile<T>;
template <class T>
concept AccumulatorTile = AnyRegisterTile<T> && std::same_as<typename T::ElementType, float>;

// True for sums that products still add to (mma.cuh).
template <class T>
inline constexpr bool kIsInFlight = false;

// Tiles in shared memory that products read and TMA boxes fill: rows of 128 bytes with its swizzle, so 64
// columns of 16 bits or 128 of 8.
inline constexpr int kPanelBytes = 128;
template <class T>
inline constexpr int kPanelCols = kPanelBytes / sizeof(T);
template <class T>
concept PanelTile = TensorTile<T> && std::same_as<typename T::Swizzle, OperandSwizzle>;

// A matrix of several panels side by side: kCols is a multiple of the columns of a panel.
template <Element T, int kRowsOf, int kColsOf>
struct SharedTile {
  using ElementType = T;
  using Panel = tiles::SharedTile<T, kRowsOf, kPanelCols<T>, OperandSwizzle>;
  static constexpr int kRows = kRowsOf, kCols = kColsOf, kPanels = kCols / kPanelCols<T>;
  static_assert(kCols % kPanelCols<T> == 0, "a shared tile has whole panels of 128-byte rows");
  Panel panel[kPanels];
};
template <class T>
inline constexpr bool kIsSharedTile = false;
template <class T, int kRows, int kCols>
inline constexpr bool kIsSharedTile<SharedTile<T, kRows, kCols>> = true;

// Operands of products in shared memory: a panel, or several.
template <class T>
concept Operand = kIsSharedTile<T> ||
    (AnySharedTile<T>&& std::same_as<typename T::Swizzle, OperandSwizzle>&& T::kRowSegments == 8);
template <class T>
__device__ __forceinline__ const auto& panel_of(const T& tile, int i) {
  if constexpr (kIsSharedTile<T>) {
    return tile.panel[i];
  } else {
    return tile;
  }
}

// Rows `first` to `first` + kCount - 1 of a panel, as a tile; both are multiples of 8.
template <int kCount, AnySharedTile Tile>
__device__ __forceinline__ auto& rows_of(Tile& tile, uint32_t first) {
  static_assert(kCount % kQuadrant == 0 && Tile::kRowSegments == 8, "whole groups of 8 rows of 128 bytes");
  using Rows = tiles::SharedTile<typename Tile::ElementType, kCount, Tile::kCols, typename Tile::Swizzle>;
  return reinterpret_cast<Rows&>(tile.data[first * Tile::kCols]);
}
template <int kCount, AnySharedTile Tile>
__device__ __forceinline__ const auto& rows_of(const Tile& tile, uint32_t first) {
  return rows_of<kCount>(const_cast<Tile&>(tile), first);
}

// Some columns of a panel, as the right operand of mma_abt_async().
template <AnySharedTile Tile, int kColsOf>
struct SharedColumns {
  using ElementType = typename Tile::ElementType;
  static constexpr int kRows = Tile::kRows, kCols = kColsOf;
  const Tile& panel;
  uint32_t first;
};
template <class T>
inline constexpr bool kIsSharedColumns = false;
template <class Tile, int kCols>
inline constexpr bool kIsSharedColumns<SharedColumns<Tile, kCols>> = true;
template <class T>
concept RightOperand = Operand<T> || kIsSharedColumns<T>;

// Columns `first` to `first` + kCount - 1 of a panel: both are multiples of the 32 bytes that one product
// takes. `first` is the same in all lanes.
template <int kCount, AnySharedTile Tile>
__device__ __forceinline__ SharedColumns<Tile, kCount> columns_of(const Tile& tile, uint32_t first) {
  static_assert(Operand<Tile>, "columns_of: the tile must have 128-byte rows with OperandSwizzle");
  static_assert(kCount * sizeof(typename Tile::ElementType) % 32 == 0,
                "columns_of: whole steps of a product");
  return {tile, first};
}

inline constexpr uint32_t kFreeBarrier = 8;  // first named barrier that no Place uses

// This thread's place. Made once, by whole warps: the compiler then knows that `index` and `warp` are uniform
// in the warp, without which ptxas serialises products.
struct Place {
  uint32_t index;  // of the warpgroup among the consumers
  uint32_t warp;   // in the warpgroup
  uint32_t lane;
  uint32_t barrier;  // named barrier of this warpgroup

  // Barrier of the warpgroup's threads.
  __device__ __forceinline__ void sync() const { ptx::named_barrier_sync(barrier, kThreads); }
  // This place, with a lane of which the compiler knows nothing. Addresses that depend on it are computed
  // where they are used, not ahead of a loop, where they would take registers from products.
  __device__ __forceinline__ Place opaque() const {
    Place out = *this;
    asm volatile("" : "+r"(out.lane));
    return out;
  }
  // This thread's number among the consumers.
  __device__ __forceinline__ uint32_t thread() const { return (index * kWarps + warp) * kWarpThreads + lane; }
  // True in one thread of the warpgroup, always the same.
  __device__ __forceinline__ bool leads() const { return warp == 0 && lane == 0; }
};
// `first_warp`: the first consumer warp of the block. Warpgroup i uses the named barrier i + 1.
__device__ __forceinline__ Place place(uint32_t first_warp = 0) {
  const uint32_t warp = __shfl_sync(kAllLanes, threadIdx.x / kWarpThreads, 0) - first_warp;
  return {warp / kWarps, warp % kWarps, threadIdx.x % kWarpThreads, warp / kWarps + 1};
}

}  // namespace serval::tiles::warpgroup
