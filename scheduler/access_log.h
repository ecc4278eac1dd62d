// The last accesses to each part of each mutable tensor, while nodes are visited in serial order.
#pragma once

#include <cstdint>
#include <vector>

#include "vm/region.h"

namespace serval {

class AccessLog {
 public:
  explicit AccessLog(size_t num_tensors) : tensors_(num_tensors) {}

  // Calls fn(node) for the writers (and, where the region is written, the readers too) whose boxes overlap; a
  // node may come up more than once.
  template <class Fn>
  void for_conflicts(const Region& region, Fn&& fn) const {
    const Log& log = tensors_[region.tensor.index];
    for (const Written& w : log.written) {
      if (w.box.overlaps(region.box)) fn(w.node);
    }
    if (!writes(region.access)) return;
    for (const Read& r : log.read) {
      if (!r.box.overlaps(region.box)) continue;
      for (const uint32_t node : r.nodes) fn(node);
    }
  }
  void record(const Region& region, uint32_t node);
  // Drops what a write to the region hides: a later access that would have met it meets that write.
  void forget(const Region& region);

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
