// How ranks share what they add up together: each owns a slice of neighbouring columns, all slices are of one
// size. Partial sums of a slice lie at its owner, the ranks' shares side by side in the order of the ranks.
// In programs that multiply vectors they are fp32. In programs that multiply tiles of rows, where the link
// between the GPUs bounds the exchange, each is rounded to bf16 before it is pushed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "instructions/common/residual.h"
#include "vm/layout/units.h"
#include "vm/tensor.h"

namespace serval {

struct Slices {
  uint32_t cols;  // of all slices
  uint32_t ranks;
  uint32_t rank;  // whose share of the partial sums it is

  constexpr uint64_t slice_cols() const { return cols / ranks; }
};

template <class Op>
constexpr Slices slices_of(const Op& op) {
  return {op.out_cols, op.ranks, op.rank};
}

// Of the partial sums of a residual whose squares are added up for so many columns together.
constexpr DType partial_sum_type(uint32_t square_cols) {
  return square_cols == kSquareColsOfGemm ? DType::kBF16 : DType::kF32;
}

// Of bytes that are spread over all slices, those that go to other ranks: slices are alike, and one is this
// rank's.
constexpr uint64_t of_other_slices(uint64_t bytes, uint32_t ranks) {
  return bytes * (ranks - 1) / ranks;
}

// Units of a slice that an instance adds up, at least, in passes of so many rows: more instances would only
// add counters.
constexpr uint32_t reduce_units(uint32_t rows) {
  return rows < 8 ? 8 : 4;
}

// Columns of one slice.
struct SlicePart {
  uint32_t owner;
  uint64_t first_col;  // of all
  uint64_t cols;
  uint64_t partial_col;  // in the owner's partial sums, of the rank's share
};

// Calls fn(part) for what each owner has of the columns [begin, end).
template <class Fn>
constexpr void for_slices(const Slices& slices, uint64_t begin, uint64_t end, Fn&& fn) {
  const uint64_t width = slices.slice_cols();
  for (uint64_t col = begin; col < end;) {
    const uint64_t owner = col / width, next = std::min(end, (owner + 1) * width);
    fn(SlicePart{static_cast<uint32_t>(owner), col, next - col, slices.rank * width + col % width});
    col = next;
  }
}

// Neighbouring ones of `pieces` that ranks share, each of them one rank's: none where there are fewer pieces
// than ranks, for some of them.
struct PieceRange {
  uint64_t begin, end;
};
constexpr PieceRange pieces_of_rank(uint64_t pieces, uint32_t rank, uint32_t ranks) {
  return {pieces * rank / ranks, pieces * (rank + 1) / ranks};
}

// The rank's tokens, in whole units; the vocabulary's last may have fewer.
struct VocabularyShare {
  uint64_t first, count;
};
constexpr VocabularyShare vocabulary_share(uint32_t vocab, uint32_t rank, uint32_t ranks) {
  const PieceRange units = pieces_of_rank(vocabulary_units(vocab), rank, ranks);
  const uint64_t first = units.begin * kUnitRows;
  return {first, std::min<uint64_t>(units.end * kUnitRows, vocab) - first};
}

}  // namespace serval
