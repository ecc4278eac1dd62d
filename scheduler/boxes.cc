#include "scheduler/boxes.h"

#include <algorithm>

namespace serval {

void append_difference(const Box& box, const Box& cut, std::vector<Box>& out) {
  if (!box.overlaps(cut)) {
    out.push_back(box);
    return;
  }
  // Full-width bands above and below the cut, then what is beside it.
  const uint64_t row_begin = std::max(box.row_begin, cut.row_begin),
                 row_end = std::min(box.row_end, cut.row_end);
  if (box.row_begin < row_begin) out.push_back({box.row_begin, row_begin, box.col_begin, box.col_end});
  if (row_end < box.row_end) out.push_back({row_end, box.row_end, box.col_begin, box.col_end});
  if (box.col_begin < cut.col_begin) out.push_back({row_begin, row_end, box.col_begin, cut.col_begin});
  if (cut.col_end < box.col_end) out.push_back({row_begin, row_end, cut.col_end, box.col_end});
}

void subtract(std::vector<Box>& boxes, const Box& cut) {
  for (size_t i = 0; i < boxes.size();) {
    if (!boxes[i].overlaps(cut)) {
      ++i;
      continue;
    }
    const Box box = boxes[i];
    boxes[i] = boxes.back();
    boxes.pop_back();
    append_difference(box, cut, boxes);  // what is appended no longer overlaps the cut
  }
}

}  // namespace serval
