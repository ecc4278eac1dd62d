// How ranks divide the columns that they add up together: each owns a slice of neighbouring columns, all of
// the same size. Partial sums of a slice lie at its owner, side by side in the order of the ranks. In
// programs of vectors they are fp32. In programs of tiles, where the link between the GPUs bounds the
// exchange, each is rounded to bf16 before it is pushed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "vm/layout/units.h"
#include "vm/program_shape.h"
#include "vm/tensor.h"

namespace serval {

struct Slices {
  uint32_t cols;  // of all slices
  uint32_t ranks;
  uint32_t rank;  // the rank that pushes

  constexpr uint64_t slice_cols() const { return cols / ranks; }
};

template <class Op>
constexpr Slices slices_of(const Op& op) {
  return {op.out_cols, op.ranks, op.rank};
}

// Type of the partial sums in a program of this order.
constexpr DType partial_sum_type(Order order) {
  return order == Order::kTile ? DType::kBF16 : DType::kF32;
}

// Share of bytes, which are spread evenly over all slices, that goes to other ranks.
constexpr uint64_t of_other_slices(uint64_t bytes, uint32_t ranks) {
  return bytes * (ranks - 1) / ranks;
}

// Least number of a slice's units for an instance of a reduction, in passes of `rows` rows: more instances
// would only add counters.
constexpr uint32_t reduce_units(uint32_t rows) {
  return rows < 8 ? 8 : 4;
}

// Neighbouring columns of one slice.
struct SlicePart {
  uint32_t owner;
  uint64_t first_col;  // counted through all slices
  uint64_t cols;
  uint64_t partial_col;  // in the owner's partial sums, in the rank's share
};

// Calls fn(part) for each owner's share of the columns [begin, end).
template <class Fn>
constexpr void for_slices(const Slices& slices, uint64_t begin, uint64_t end, Fn&& fn) {
  const uint64_t width = slices.slice_cols();
  for (uint64_t col = begin; col < end;) {
    const uint64_t owner = col / width, next = std::min(end, (owner + 1) * width);
    fn(SlicePart{static_cast<uint32_t>(owner), col, next - col, slices.rank * width + col % width});
    col = next;
  }
}

// A rank's share of `pieces` pieces, each of which belongs to one rank. With fewer pieces than ranks, some
// shares are empty.
struct PieceRange {
  uint64_t begin, end;
};
constexpr PieceRange pieces_of_rank(uint64_t pieces, uint32_t rank, uint32_t ranks) {
  return {pieces * rank / ranks, pieces * (rank + 1) / ranks};
}

// The rank's tokens of the vocabulary, in whole units; the vocabulary's last unit may have fewer tokens.
struct VocabularyShare {
  uint64_t first, count;
};
constexpr VocabularyShare vocabulary_share(uint32_t vocab, uint32_t rank, uint32_t ranks) {
  const PieceRange units = pieces_of_rank(vocabulary_units(vocab), rank, ranks);
  const uint64_t first = units.begin * kUnitRows;
  return {first, std::min<uint64_t>(units.end * kUnitRows, vocab) - first};
}

}  // namespace serval
