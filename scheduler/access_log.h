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
      if (w.box.overlaps(region.box) && !are_apart(w.region, region)) fn(w.node);
    }
    if (!writes(region.access)) return;
    for (const Read& r : log.read) {
      if (!r.box.overlaps(region.box)) continue;
      for (const uint32_t node : r.nodes) fn(node);
    }
  }
  void record(const Region& region, uint32_t node);
  // Drops what a write to the region hides: a later access that would have met it meets that write. A share
  // of a deal hides nothing by itself; all of them hide what came before the first.
  void forget(const Region& region);

 private:
  struct Written {
    Box box;
    uint32_t node;
    uint32_t time;
    Region region;
  };
  struct Read {  // nodes that read the very same box
    Box box;
    std::vector<uint32_t> nodes;
    uint32_t time;
  };
  // Shares of one deal, written one after the other; it begins anew with a share that it has already.
  struct Deal {
    Region region;
    uint32_t begin;  // time before the first
    uint32_t count;
    std::vector<bool> has;  // [shares]
  };
  struct Log {
    std::vector<Written> written;
    std::vector<Read> read;
    std::vector<Deal> deals;
    uint32_t time = 0;  // entries that a deal may hide are no younger than its beginning
  };
  static void deal_out(Log& log, const Region& region);
  std::vector<Log> tensors_;
};

}  // namespace serval
