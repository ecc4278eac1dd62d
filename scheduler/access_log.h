// The last accesses to each part of each mutable tensor, while nodes are visited in serial order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "vm/region.h"

namespace serval {

class AccessLog {
 public:
  explicit AccessLog(size_t num_tensors) : tensors_(num_tensors) {}

  // Calls fn(nodes) for the writers (and, where the region is written, the readers too) whose boxes overlap:
  // a span of those that have read the same box, or of one that has written. A node may come up more than
  // once.
  template <class Fn>
  void for_conflicts(const Region& region, Fn&& fn) const {
    const Log& log = tensors_[region.tensor.index];
    for (const Band& band : log.bands) {
      if (!band.overlaps(region.box)) continue;
      for (auto w = band.first_near(region.box); w != band.written.end(); ++w) {
        if (w->box.col_begin >= region.box.col_end) break;
        if (meet(w->box, region.box) && !are_apart(w->region, region)) fn(std::span(&w->node, 1));
      }
    }
    if (!writes(region.access)) return;
    for (const Band& band : log.bands) {
      if (!band.overlaps(region.box)) continue;
      for (const Read& r : band.read) {
        if (meet(r.box, region.box)) fn(std::span(r.nodes));
      }
    }
  }
  void record(const Region& region, uint32_t node);
  // Changes whenever a region that is only read may meet other writers than before.
  uint64_t writes_of(TensorId tensor) const { return tensors_[tensor.index].writes; }
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
  // Of two whose rows overlap, as those of a band do.
  static bool meet(const Box& a, const Box& b) { return a.col_begin < b.col_end && b.col_begin < a.col_end; }
  struct Read {  // nodes that read the very same box
    Box box;
    std::vector<uint32_t> nodes;
    uint32_t time;
  };
  // Boxes of the same rows. Tiles of a pass's rows are bands, each with as many boxes as the weights have
  // tiles: what has others is not looked at.
  struct Band {
    uint64_t row_begin, row_end;
    std::vector<Written> written = {};  // by the first column: a pass of many rows has hundreds in a band
    std::vector<Read> read = {};
    uint64_t widest = 0;  // columns of one that was written

    // The first that was written whose columns may meet those of the box.
    std::vector<Written>::const_iterator first_near(const Box& box) const {
      const uint64_t from = box.col_begin - std::min(box.col_begin, widest);
      return std::lower_bound(written.begin(), written.end(), from,
                              [](const Written& w, uint64_t begin) { return w.box.col_begin < begin; });
    }
    // What was written to the very same box, none if it was dealt out.
    Written* find(const Box& box);
    void add(const Written& entry);
    bool overlaps(const Box& box) const { return row_begin < box.row_end && box.row_begin < row_end; }
  };
  // Shares of one deal, written one after the other; it begins anew with a share that it has already.
  struct Deal {
    Region region;
    uint32_t begin;  // time before the first
    uint32_t count;
    std::vector<bool> has;  // [shares]
  };
  struct Log {
    std::vector<Band> bands;
    std::vector<Deal> deals;
    uint64_t writes = 0;
    uint32_t time = 0;  // entries that a deal may hide are no younger than its beginning
  };
  static Band& band_of(Log& log, const Box& box);
  // Takes `cut` out of what was read, or of what was read and written, up to `until`.
  static void carve_read(Log& log, const Box& cut, uint32_t until);
  static void carve(Log& log, const Box& cut, uint32_t until);
  static void deal_out(Log& log, const Region& region);
  static void record_read(Log& log, const Box& box, uint32_t node);
  std::vector<Log> tensors_;
};

}  // namespace serval
