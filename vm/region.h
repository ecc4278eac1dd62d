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

  bool empty() const { return row_begin >= row_end || col_begin >= col_end; }
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

struct Region {
  TensorId tensor;
  Box box;
  Access access = Access::kRead;
  uint8_t operand = 0;  // which tensor operand of the instruction (bit of Wait::operand_mask)
};

using Footprint = std::vector<Region>;

}  // namespace serval
