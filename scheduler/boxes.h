// Differences of boxes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "vm/region.h"

namespace serval {

inline uint64_t area(const Box& box) {
  return (box.row_end - box.row_begin) * (box.col_end - box.col_begin);
}
// The smallest box that has both.
inline Box bounds(const Box& a, const Box& b) {
  return {std::min(a.row_begin, b.row_begin), std::max(a.row_end, b.row_end),
          std::min(a.col_begin, b.col_begin), std::max(a.col_end, b.col_end)};
}

// Calls fn(box) for what is left of `box` outside `cut`: at most four boxes that do not overlap.
template <class Fn>
void for_difference(const Box& box, const Box& cut, Fn&& fn) {
  if (!box.overlaps(cut)) {
    fn(box);
    return;
  }
  // Full-width bands above and below the cut, then the pieces to its left and right.
  const uint64_t row_begin = std::max(box.row_begin, cut.row_begin),
                 row_end = std::min(box.row_end, cut.row_end);
  if (box.row_begin < row_begin) fn(Box{box.row_begin, row_begin, box.col_begin, box.col_end});
  if (row_end < box.row_end) fn(Box{row_end, box.row_end, box.col_begin, box.col_end});
  if (box.col_begin < cut.col_begin) fn(Box{row_begin, row_end, box.col_begin, cut.col_begin});
  if (cut.col_end < box.col_end) fn(Box{row_begin, row_end, cut.col_end, box.col_end});
}

// Appends the pieces of `box` outside `cut` to `out`.
void append_difference(const Box& box, const Box& cut, std::vector<Box>& out);

// Removes `cut` from all boxes.
void subtract(std::vector<Box>& boxes, const Box& cut);

}  // namespace serval
