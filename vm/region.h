// The regions of tensors that an instruction touches: boxes from which dependencies, counters and the
// validator work.
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

// The part of a box that an instruction touches, which depends on the pass's state. Two regions with the same
// part and layout touch the same elements in the intersection of their boxes, in every state.
enum class Part : uint8_t {
  kWhole,       // the whole box
  kActiveRows,  // of a tensor with one row for each row of the pass: the active rows
  kLogitsRows,  // … the active rows that want logits
  kNewTokens,  // of a KV cache: the tokens of some active rows of the pass. The state decides where they lie,
               // but no two rows share one: so a box's share of the tensor's columns is those rows' share of
               // the pass's rows
  kSeenLeaves,  // of attention's partial results: the leaves that active rows see
  // The following parts are divided among the `layout` records that write the box, as the state's list of
  // attention items (vm/state/attention.h) says; the region's `share` is the record's number.
  kItemPlaces,   // places for partial results
  kItemRows,     // of a tensor with one row for each row of the pass: results that one item computes alone
  kSplitRows,    // … results that several items share: the other active rows
  kDividedRows,  // … all active rows, where no two items can share one
};

// True if several records together write the part of one box, a share each.
constexpr bool is_divided(Part part) {
  return part == Part::kItemPlaces || part == Part::kItemRows || part == Part::kSplitRows ||
         part == Part::kDividedRows;
}

// True if `outer` of a box contains its part `inner`, in every state.
constexpr bool includes(Part outer, Part inner) {
  return outer == inner || outer == Part::kWhole ||
         (outer == Part::kActiveRows && inner == Part::kLogitsRows);
}

// An access has two bounds. It touches no more than `part` of the box; conflicts are derived from that. It
// certainly writes all of `part` if it is a write and `certain`; only that proves that a later read finds
// something written. Exact footprints have whole boxes.
struct Region {
  TensorId tensor;
  Box box;
  Access access = Access::kRead;
  uint8_t operand = 0;  // which tensor operand of the instruction (bit of Wait::operand_mask)
  Part part = Part::kWhole;
  bool certain = false;
  // kSeenLeaves: how the tensor is divided into leaves (instructions/attention/op.h). Divided parts: the
  // number of records.
  uint32_t layout = 0;
  uint32_t share = 0;  // divided parts: share that is written; a read region has all shares

  friend bool operator==(const Region&, const Region&) = default;
};

// Two different shares of the same division have no element in common, in any state.
constexpr bool are_apart(const Region& a, const Region& b) {
  return is_divided(a.part) && a.part == b.part && a.layout == b.layout && a.share != b.share &&
         a.access == Access::kWrite && b.access == Access::kWrite;
}

constexpr bool certainly_writes(const Region& r) {
  return r.certain && writes(r.access);
}

using Footprint = std::vector<Region>;

}  // namespace serval
