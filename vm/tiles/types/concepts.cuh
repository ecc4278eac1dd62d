// Requirements of operations on their operands. A tile of the wrong shape, type or layout is refused at the
// call.
#pragma once

#include "vm/tiles/types/global_tile.cuh"
#include "vm/tiles/types/register_tile.cuh"
#include "vm/tiles/types/register_vector.cuh"
#include "vm/tiles/types/shared_tile.cuh"

namespace serval::tiles {

template <class T>
inline constexpr bool kIsRegisterTile = false;
template <class T, int kRows, int kCols, Layout kLayout>
inline constexpr bool kIsRegisterTile<RegisterTile<T, kRows, kCols, kLayout>> = true;
template <class T>
inline constexpr bool kIsSharedTile = false;
template <class T, int kRows, int kCols, class Swizzle>
inline constexpr bool kIsSharedTile<SharedTile<T, kRows, kCols, Swizzle>> = true;

template <class T>
inline constexpr bool kIsRegisterVector = false;
template <class T, int kLength, Along kAlong>
inline constexpr bool kIsRegisterVector<RegisterVector<T, kLength, kAlong>> = true;

template <class T>
concept AnyRegisterTile = kIsRegisterTile<T>;
template <class T>
concept AnyRegisterVector = kIsRegisterVector<T>;
template <class T>
concept FloatVector = AnyRegisterVector<T> && std::same_as<typename T::ElementType, float>;
template <class T>
concept AnySharedTile = kIsSharedTile<T>;
template <class T>
concept FloatTile = AnyRegisterTile<T> && std::same_as<typename T::ElementType, float>;
template <class T>
concept OperandTile = AnyRegisterTile<T> && Element16<typename T::ElementType>;
template <class T>
concept RowOperand = OperandTile<T> && T::kLayout == Layout::kRow;
template <class T>
concept ColOperand = OperandTile<T> && T::kLayout == Layout::kCol;
template <class T>
concept AccumulatorTile = FloatTile<T> && T::kLayout == Layout::kRow;

template <class A, class B>
concept SameElement = std::same_as<typename A::ElementType, typename B::ElementType>;
template <class A, class B>
concept SameShape = A::kRows == B::kRows&& A::kCols == B::kCols;

// A shared tile of the register tile's shape and element type.
template <class T, class Tile>
concept SharedTileFor = AnySharedTile<T> && SameElement<T, Tile> && SameShape<T, Tile>;

// A shared tile with the rows of the register tile and columns for several of them.
template <class T, class Tile>
concept SharedTileAround =
    AnySharedTile<T> && SameElement<T, Tile> && T::kRows == Tile::kRows&& T::kCols % Tile::kCols == 0 &&
    Tile::kCols % kBaseTile == 0;

// A tile of the same matrix as another tile in another type, to or from fp32.
template <class T, class Tile>
concept ConversionOf = AnyRegisterTile<T> && SameShape<T, Tile> && T::kLayout == Tile::kLayout &&
                       (FloatTile<T> != FloatTile<Tile>);

// One mma instruction covers 16 rows of d, 8 of its columns and 16 terms.
template <class D, int kTerms>
concept ProductShape = AccumulatorTile<D> && D::kRows % kBaseTile == 0 && kTerms % kBaseTile == 0;
// d[m, n] += Σ a[m, k] b[k, n]
template <class D, class A, class B>
concept ProductAB = RowOperand<A> && ColOperand<B> && SameElement<A, B> && A::kRows == D::kRows&& B::kCols ==
                    D::kCols&& A::kCols == B::kRows&& ProductShape<D, A::kCols>;
// d[m, n] += Σ a[m, k] b[n, k]
template <class D, class A, class B>
concept ProductABt = RowOperand<A> && RowOperand<B> && SameElement<A, B> && A::kRows == D::kRows&& B::kRows ==
                     D::kCols&& A::kCols == B::kCols&& ProductShape<D, A::kCols>;
// d[m, n] += Σ a[k, m] b[k, n]
template <class D, class A, class B>
concept ProductAtB = ColOperand<A> && ColOperand<B> && SameElement<A, B> && A::kCols == D::kRows&& B::kCols ==
                     D::kCols&& A::kRows == B::kRows&& ProductShape<D, A::kRows>;

// d[m, n] += Σ a[k, m] b[n, k]
template <class D, class A, class B>
concept ProductAtBt = ColOperand<A> && RowOperand<B> && SameElement<A, B> && A::kCols ==
                      D::kRows&& B::kRows == D::kCols&& A::kRows == B::kCols&& ProductShape<D, A::kRows>;

}  // namespace serval::tiles
