// The last accesses to each part of each mutable tensor, while nodes are visited in serial order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/box_index.h"
#include "vm/region.h"

namespace serval {

class AccessLog {
 public:
  explicit AccessLog(size_t num_tensors) : tensors_(num_tensors) {}

  // Nodes that have touched the same box, and of those that have read it a number for them: what has the
  // number of another and is as long has the same nodes.
  struct Nodes {
    std::span<const uint32_t> nodes;
    uint32_t readers = kNotReaders;
  };
  static constexpr uint32_t kNotReaders = 0xffffffff;

  // Calls fn(Nodes) for the writers (and, where the region is written, the readers too) whose boxes overlap:
  // for all that have read the same box, or for one that has written. A node may come up more than once.
  template <class Fn>
  void for_conflicts(const Region& region, Fn&& fn) const {
    const Log& log = tensors_[region.tensor.index];
    log.written.for_overlapping(region.box, [&](const Written& w) {
      if (!are_apart(w.region, region)) fn(Nodes{std::span(&w.node, 1)});
    });
    if (!writes(region.access)) return;
    log.read.for_overlapping(region.box, [&](const Read& r) {
      fn(Nodes{readers_[r.readers].nodes, r.readers});
    });
  }
  void record(const Region& region, uint32_t node);
  // Changes whenever a region that is only read may meet other writers than before.
  uint64_t writes_of(TensorId tensor) const { return tensors_[tensor.index].writes; }
  // Drops what a write to the region hides: a later access that would have met it meets that write. A share
  // of a division hides nothing by itself; all of them hide what came before the first.
  void forget(const Region& region);

 private:
  struct Written {
    Box box;
    uint32_t node;
    uint32_t time;
    Region region;
  };
  struct Read {
    Box box;           // what is left of what they read
    uint32_t readers;  // index into readers_
    uint32_t time;
  };
  struct Readers {  // nodes that read the very same box
    Box box;
    std::vector<uint32_t> nodes;
  };
  // Shares of one division, written one after the other; it begins anew with a share that it has already.
  struct Division {
    Region region;
    uint32_t begin;  // time before the first
    uint32_t count;
    std::vector<bool> written;  // [shares]
  };
  struct Log {
    BoxIndex<Written> written;
    BoxIndex<Read> read;
    std::vector<Division> divisions;
    uint64_t writes = 0;
    uint32_t time = 0;  // entries that a division may hide are no younger than its beginning
  };
  // Takes `cut` out of what was read and written, up to `until`.
  static void carve(Log& log, const Box& cut, uint32_t until);
  static void add_share(Log& log, const Region& region);
  void record_read(Log& log, const Box& box, uint32_t node);
  std::vector<Log> tensors_;
  std::vector<Readers> readers_;  // those whom writes hide, too: no more than there were reads
};

}  // namespace serval
