// What operations ask of their operands. A tile of the wrong shape, type, layout or order is refused where
// the operation is called.
#pragma once

#include <type_traits>

#include "vm/tiles/types/column_stage.cuh"
#include "vm/tiles/types/global_tile.cuh"
#include "vm/tiles/types/register_tile.cuh"
#include "vm/tiles/types/register_vector.cuh"
#include "vm/tiles/types/shared_tile.cuh"

namespace serval::tiles {

template <class T>
inline constexpr bool kIsRegisterTile = false;
template <class T, int kRows, int kCols, Layout kLayout, Order kRowOrder, Order kColOrder>
inline constexpr bool kIsRegisterTile<RegisterTile<T, kRows, kCols, kLayout, kRowOrder, kColOrder>> = true;

template <class T>
concept AnyRegisterTile = kIsRegisterTile<T>;
template <class T>
concept FloatTile = AnyRegisterTile<T> && std::same_as<typename T::ElementType, float>;
template <class T>
concept OperandTile = AnyRegisterTile<T> && Element16<typename T::ElementType>;
template <class T, Layout kLayout>
concept OperandOf = OperandTile<T> && T::kLayout == kLayout;
template <class T>
concept AccumulatorTile = FloatTile<T> && T::kLayout == Layout::kRow&& T::kColOrder == Order::kNatural;

template <class A, class B>
concept SameElement = std::same_as<typename A::ElementType, typename B::ElementType>;
template <class A, class B>
concept SameShape = A::kRows == B::kRows&& A::kCols == B::kCols;
// Element by element in the same registers.
template <class A, class B>
concept SamePlaces =
    SameShape<A, B> && A::kLayout == B::kLayout&& A::kRowOrder == B::kRowOrder&& A::kColOrder == B::kColOrder;

// d[m, n] += Σ a[m, k] b[n, k]: rows of d are in a's order; b's rows must be in their natural one, since wide
// rows of an operand and wide columns of an accumulator are not the same.
template <class D, class A, class B>
concept ProductABt = AccumulatorTile<D> && OperandOf<A, Layout::kRow> && OperandOf<B, Layout::kRow> &&
                         SameElement<A, B> && A::kRows == D::kRows&& B::kRows == D::kCols&& A::kCols ==
                         B::kCols&& A::kColOrder == B::kColOrder&& A::kRowOrder ==
                         D::kRowOrder&& B::kRowOrder == Order::kNatural&& A::kRows % kBaseTile == 0 &&
                     A::kCols % kBaseTile == 0;
// d[m, n] += Σ a[k, m] b[k, n].
template <class D, class A, class B>
concept ProductAtB = AccumulatorTile<D> && OperandOf<A, Layout::kCol> && OperandOf<B, Layout::kCol> &&
                         SameElement<A, B> && A::kCols == D::kRows&& B::kCols == D::kCols&& A::kRows ==
                         B::kRows&& A::kRowOrder == B::kRowOrder&& A::kColOrder ==
                         D::kRowOrder&& B::kColOrder == Order::kNatural&& A::kCols % kBaseTile == 0 &&
                     A::kRows % kBaseTile == 0;

}  // namespace serval::tiles
