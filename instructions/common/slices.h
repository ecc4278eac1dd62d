// How ranks share what they add up together: each owns a slice of neighbouring columns, all slices are of one
// size. Partial sums of a slice lie at its owner, the ranks' shares side by side in the order of the ranks.
#pragma once

#include <algorithm>
#include <cstdint>

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

// Units of a slice that an instance adds up, at least: more instances would only add counters.
inline constexpr uint32_t kReduceUnits = 8;

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

}  // namespace serval
