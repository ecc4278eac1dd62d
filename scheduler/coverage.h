// What has certainly been written so far, part by part (vm/region.h), while instructions are visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vm/region.h"

namespace serval {

class Coverage {
 public:
  explicit Coverage(size_t num_tensors) : tensors_(num_tensors) {}

  // `region` is certainly written.
  void add(const Region& region);
  // Leaves in `boxes`, of the region's tensor, what is not covered of the region's part.
  void subtract_from(std::vector<Box>& boxes, const Region& region) const;

 private:
  struct OfPart {
    Part part;
    uint32_t layout;
    std::vector<Box> boxes;  // neighbours are merged, so that what is written whole is one box
  };
  std::vector<std::vector<OfPart>> tensors_;
};

}  // namespace serval
