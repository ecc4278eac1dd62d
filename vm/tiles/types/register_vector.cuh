// Vectors for register tiles: one element for each row or each column.
#pragma once

#include "vm/tiles/types/register_tile.cuh"

namespace serval::tiles {

// The lanes that hold an element: kPairs: those with the same position along the dimension of a tile's pairs
// (lane mod 4; two neighbours each); kSingles: along the other dimension (lane / 4; one each). All of these
// lanes hold the same value.
enum class Along : uint8_t { kPairs, kSingles };

template <class T, int kLengthOf, Along kAlongOf>
struct RegisterVector;

template <class T, int kLengthOf>
struct RegisterVector<T, kLengthOf, Along::kPairs> {
  using ElementType = T;
  static constexpr int kLength = kLengthOf;
  static constexpr Along kAlong = Along::kPairs;
  static constexpr int kQuadrants = kLength / kQuadrant;
  static_assert(kLength > 0 && kLength % kQuadrant == 0,
                "an element for each row or column of whole quadrants");
  Pair<T> quadrant[kQuadrants];
};
template <class T, int kLengthOf>
struct RegisterVector<T, kLengthOf, Along::kSingles> {
  using ElementType = T;
  static constexpr int kLength = kLengthOf;
  static constexpr Along kAlong = Along::kSingles;
  static constexpr int kQuadrants = kLength / kQuadrant;
  static_assert(kLength > 0 && kLength % kQuadrant == 0,
                "an element for each row or column of whole quadrants");
  T quadrant[kQuadrants];
};

// The vector with one element for each row (or column) of a tile.
template <class Tile, class T = float>
using RowVector =
    RegisterVector<T, Tile::kRows, Tile::kLayout == Layout::kRow ? Along::kSingles : Along::kPairs>;
template <class Tile, class T = float>
using ColumnVector =
    RegisterVector<T, Tile::kCols, Tile::kLayout == Layout::kRow ? Along::kPairs : Along::kSingles>;

}  // namespace serval::tiles
