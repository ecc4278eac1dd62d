#include "scheduler/boxes.h"

namespace serval {

void append_difference(const Box& box, const Box& cut, std::vector<Box>& out) {
  for_difference(box, cut, [&](const Box& rest) { out.push_back(rest); });
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
    append_difference(box, cut, boxes);  // the appended boxes do not overlap the cut
  }
}

}  // namespace serval
