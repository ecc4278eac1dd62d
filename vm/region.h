// Which part of which tensor an instruction touches: boxes that dependencies, counters and the validator work
// on.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/instruction.h"

namespace serval {

// Rows [row_begin, row_end) × columns [col_begin, col_end) of a tensor.
struct Box {
  uint64_t row_begin = 0, row_end = 0;
  uint64_t col_begin = 0, col_end = 0;

  constexpr bool empty() const { return row_begin >= row_end || col_begin >= col_end; }
  bool overlaps(const Box& o) const {
    return row_begin < o.row_end && o.row_begin < row_end && col_begin < o.col_end && o.col_begin < col_end;
  }
  bool contains(const Box& o) const {
    return row_begin <= o.row_begin && o.row_end <= row_end && col_begin <= o.col_begin &&
           o.col_end <= col_end;
  }
  friend bool operator==(const Box&, const Box&) = default;
};

enum class Access : uint8_t { kRead, kWrite, kReadWrite };
constexpr bool reads(Access a) {
  return a != Access::kWrite;
}
constexpr bool writes(Access a) {
  return a != Access::kRead;
}

// What of a box an instruction touches depends on the pass's state. Two regions of the same part (and layout)
// touch the same elements of what their boxes share, in every state.
enum class Part : uint8_t {
  kWhole,       // all of the box
  kActiveRows,  // of a tensor with a row for each of the pass's: the rows that are active
  kLogitsRows,  // … the active rows of which logits are wanted
  kNewTokens,   // of a KV cache: the tokens of some active rows of the pass. Where they lie, the state says,
                // but no two rows have the same: so a box's columns are the share of the tensor's that the
                // rows have of the pass's
  kSeenLeaves,  // of attention's partial results: the leaves that the active rows see
  // What the state's list of attention items (vm/state/attention.h) deals out to the `layout` records that
  // write the box; the region's `share` says which of them this is.
  kItemPlaces,  // the places for partial results
  kItemRows,    // of a tensor with a row for each of the pass's: what no two items share
  kSplitRows,   // … and what they do: the rest of the active rows
  kDealtRows,   // … the active rows, where no two items can share one
};

// Whether several records write the part of one box together, a share each.
constexpr bool is_dealt(Part part) {
  return part == Part::kItemPlaces || part == Part::kItemRows || part == Part::kSplitRows ||
         part == Part::kDealtRows;
}

// Whether `outer` of a box holds all of its part `inner`, in every state.
constexpr bool includes(Part outer, Part inner) {
  return outer == inner || outer == Part::kWhole ||
         (outer == Part::kActiveRows && inner == Part::kLogitsRows);
}

// An access has two sides. What may be touched: no more than `part` of the box; conflicts are found with it.
// What is certainly written: all of `part`, if the access is a write and `certain`; only that proves that a
// later read finds something written. Exact footprints have whole boxes.
struct Region {
  TensorId tensor;
  Box box;
  Access access = Access::kRead;
  uint8_t operand = 0;  // which tensor operand of the instruction (bit of Wait::operand_mask)
  Part part = Part::kWhole;
  bool certain = false;
  // Of kSeenLeaves: how the tensor is divided into leaves (instructions/attention/op.h). Of what is dealt
  // out: to how many records.
  uint32_t layout = 0;
  uint32_t share = 0;  // of what is dealt out, of a region that is written; one that is read has all of them

  friend bool operator==(const Region&, const Region&) = default;
};

// Two shares of one deal have no element in common, in any state.
constexpr bool are_apart(const Region& a, const Region& b) {
  return is_dealt(a.part) && a.part == b.part && a.layout == b.layout && a.share != b.share &&
         a.access == Access::kWrite && b.access == Access::kWrite;
}

constexpr bool certainly_writes(const Region& r) {
  return r.certain && writes(r.access);
}

using Footprint = std::vector<Region>;

}  // namespace serval
