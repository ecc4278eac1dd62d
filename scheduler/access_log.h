// Records the last accesses to each region of each mutable tensor, while nodes are visited in serial order.
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

  // Nodes that have accessed one box. `readers` identifies a list of readers, which may still grow: two lists
  // with equal numbers and equal lengths are the same nodes.
  struct Nodes {
    std::span<const uint32_t> nodes;
    uint32_t readers = kNotReaders;
  };
  static constexpr uint32_t kNotReaders = 0xffffffff;

  // Calls fn(Nodes) for earlier accesses that conflict with the region: once for each writer of an
  // overlapping box and, if the region is written, once for all readers of the same box. A node may be
  // reported more than once.
  template <class Fn>
  void for_conflicts(const Region& region, Fn&& fn) {
    Log& log = tensors_[region.tensor.index];
    bool is_pending = false;
    log.written.for_overlapping(region.box, [&](const Written& w) {
      is_pending |= w.cut == log.next_cut;
      if (!are_apart(w.share_of(), region)) fn(Nodes{std::span(&w.node, 1)});
    });
    if (!writes(region.access)) return;
    if (is_pending) cut_reads(log);
    log.read.for_overlapping(region.box, [&](const Read& r) {
      fn(Nodes{readers_[r.readers].nodes, r.readers});
    });
  }
  void record(const Region& region, uint32_t node);
  // Changes whenever a region that is only read may conflict with other writers than before.
  uint64_t writes_of(TensorId tensor) const { return tensors_[tensor.index].writes; }
  // Drops the accesses that a write to the region hides: later accesses conflict with the write instead. One
  // share of a divided part hides nothing; all shares together hide the accesses before the first of them.
  void forget(const Region& region);

 private:
  struct Written {
    Box box;
    uint32_t node;
    uint32_t time;
    Access access;
    Part part;
    uint32_t layout, share;
    uint64_t cut = 0;  // the number of the last cut that has, or will have, this box

    // The written region as are_apart() asks for it.
    Region share_of() const {
      return {.tensor = {}, .box = box, .access = access, .part = part, .layout = layout, .share = share};
    }
  };
  struct Read {
    Box box;           // the piece of the readers' box that no write has hidden
    uint32_t readers;  // index into readers_
    uint32_t time;
  };
  struct Readers {  // nodes that read exactly this box
    Box box;
    std::vector<uint32_t> nodes;
  };
  // Shares of a divided part, written one after another. Writing a share again starts a new division.
  struct Division {
    Region region;
    uint32_t begin;             // time before the first share
    uint32_t count;             // shares written
    std::vector<bool> written;  // [shares]
  };
  struct Log {
    BoxIndex<Written> written;
    BoxIndex<Read> read;
    std::vector<Division> divisions;
    // Boxes that were written since the last cut of `read` and are still to be cut out of it. They do not
    // overlap. Together, the windows of a stage mostly are one box, which costs one cut instead of hundreds.
    std::vector<Box> pending;
    uint64_t next_cut = 1;
    uint32_t latest = kNotReaders;  // the readers recorded last, if all of their box is left in `read`
    uint64_t writes = 0;
    uint32_t time = 0;  // a complete division hides entries up to its `begin`
  };
  // Removes `cut` from the boxes of all entries up to time `until`.
  static void carve(Log& log, const Box& cut, uint32_t until);
  // Cuts the pending boxes out of what was read.
  static void cut_reads(Log& log);
  static void add_share(Log& log, const Region& region);
  void record_read(Log& log, const Box& box, uint32_t node);
  std::vector<Log> tensors_;
  std::vector<Readers> readers_;  // also those that writes have hidden; at most one for each read
};

}  // namespace serval
