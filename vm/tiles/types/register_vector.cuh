// Vectors that go with register tiles: one element for each row or each column.
#pragma once

#include "vm/tiles/types/element.cuh"
#include "vm/tiles/types/layout.cuh"

namespace serval::tiles {

// Which lanes hold an element: those that hold the same place along the pair's dimension of a tile (lane mod
// 4; each lane has two neighbours), or along the other (lane / 4; one). All of these lanes hold the same
// value.
enum class Along : uint8_t { kPairs, kSingles };

template <class T, int kLengthOf, Along kAlongOf>
struct RegisterVector;

template <class T, int kLengthOf>
struct RegisterVector<T, kLengthOf, Along::kPairs> {
  using ElementType = T;
  static constexpr int kLength = kLengthOf;
  static constexpr Along kAlong = Along::kPairs;
  static_assert(kLength > 0 && kLength % kQuadrant == 0,
                "an element for each row or column of whole quadrants");
  Pair<T> quadrant[kLength / kQuadrant];
};
template <class T, int kLengthOf>
struct RegisterVector<T, kLengthOf, Along::kSingles> {
  using ElementType = T;
  static constexpr int kLength = kLengthOf;
  static constexpr Along kAlong = Along::kSingles;
  static_assert(kLength > 0 && kLength % kQuadrant == 0,
                "an element for each row or column of whole quadrants");
  T quadrant[kLength / kQuadrant];
};

// The vector with one element for each column (row) of a tile.
template <class Tile, class T = float>
using ColumnVector =
    RegisterVector<T, Tile::kCols, Tile::kLayout == Layout::kRow ? Along::kPairs : Along::kSingles>;
template <class Tile, class T = float>
using RowVector =
    RegisterVector<T, Tile::kRows, Tile::kLayout == Layout::kRow ? Along::kSingles : Along::kPairs>;

}  // namespace serval::tiles
