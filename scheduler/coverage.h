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

  // `region` is certainly written. Of a part that is dealt out, a box is covered when all shares of it are;
  // what items have to themselves and what they share are all active rows together.
  void add(const Region& region);
  // Leaves in `boxes`, of the region's tensor, what is not covered of the region's part.
  void subtract_from(std::vector<Box>& boxes, const Region& region) const;

 private:
  struct OfPart {
    Part part;
    uint32_t layout;
    std::vector<Box> boxes;  // neighbours are merged, so that what is written whole is one box
  };
  struct Deal {
    Region region;
    uint32_t missing;
    std::vector<bool> has;  // [shares]
  };
  struct OfTensor {
    std::vector<OfPart> parts;
    std::vector<Deal> deals;
  };
  static void add_part(OfTensor& tensor, Part part, uint32_t layout, const Box& box);
  static void add_share(OfTensor& tensor, const Region& region);
  std::vector<OfTensor> tensors_;
};

}  // namespace serval
