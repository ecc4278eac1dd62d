// Who touched which part of each mutable tensor last, while nodes are visited in serial order.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/region.h"

namespace serval {

class AccessLog {
 public:
  explicit AccessLog(size_t num_tensors) : tensors_(num_tensors) {}

  // Earlier writers (and, for a write, readers too) whose boxes overlap, appended to `out`; may hold
  // duplicates.
  void conflicts(const Region& region, std::vector<uint32_t>& out) const;
  void record(const Region& region, uint32_t node);

 private:
  struct Written {
    Box box;
    uint32_t node;
  };
  struct Read {  // nodes that read the very same box
    Box box;
    std::vector<uint32_t> nodes;
  };
  struct Log {
    std::vector<Written> written;
    std::vector<Read> read;
  };
  std::vector<Log> tensors_;
};

}  // namespace serval
