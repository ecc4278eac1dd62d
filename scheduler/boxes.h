// Geometry of regions.
#pragma once

#include <vector>

#include "vm/region.h"

namespace serval {

// Appends what is left of `box` outside `cut`, at most four boxes that do not overlap, to `out`.
void append_difference(const Box& box, const Box& cut, std::vector<Box>& out);

// Takes `cut` out of all boxes.
void subtract(std::vector<Box>& boxes, const Box& cut);

}  // namespace serval
