#include "scheduler/access_log.h"

#include <algorithm>

namespace serval {
namespace {

// What is left of `box` outside `cut`, where that is a box or two; otherwise `box` as it is, which only keeps
// an older access in the log for longer than needed.
void append_remainder(const Box& box, const Box& cut, std::vector<Box>& out) {
  if (!box.overlaps(cut)) {
    out.push_back(box);
    return;
  }
  if (cut.contains(box)) return;
  if (cut.row_begin <= box.row_begin && box.row_end <= cut.row_end) {
    if (box.col_begin < cut.col_begin)
      out.push_back({box.row_begin, box.row_end, box.col_begin, cut.col_begin});
    if (cut.col_end < box.col_end) out.push_back({box.row_begin, box.row_end, cut.col_end, box.col_end});
  } else if (cut.col_begin <= box.col_begin && box.col_end <= cut.col_end) {
    if (box.row_begin < cut.row_begin)
      out.push_back({box.row_begin, cut.row_begin, box.col_begin, box.col_end});
    if (cut.row_end < box.row_end) out.push_back({cut.row_end, box.row_end, box.col_begin, box.col_end});
  } else {
    out.push_back(box);
  }
}

// Takes `cut` out of every entry's box. Entries keep their order, which is mostly that of the nodes.
template <class Entry>
void carve(std::vector<Entry>& entries, const Box& cut) {
  std::vector<Box> rest;
  std::vector<Entry> split;
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].box.overlaps(cut)) {
      rest.clear();
      append_remainder(entries[i].box, cut, rest);
      if (rest.empty()) continue;
      entries[i].box = rest[0];
      for (size_t r = 1; r < rest.size(); ++r) {
        split.push_back(entries[i]);
        split.back().box = rest[r];
      }
    }
    if (kept != i) entries[kept] = std::move(entries[i]);
    ++kept;
  }
  entries.resize(kept);
  entries.insert(entries.end(), split.begin(), split.end());
}

}  // namespace

void AccessLog::forget(const Region& region) {
  Log& log = tensors_[region.tensor.index];
  carve(log.written, region.box);
  carve(log.read, region.box);
}

void AccessLog::record(const Region& region, uint32_t node) {
  Log& log = tensors_[region.tensor.index];
  if (writes(region.access)) {
    // The same division of a tensor is written layer after layer: then only a name changes.
    const auto same = std::find_if(log.written.begin(), log.written.end(),
                                   [&](const Written& w) { return w.box == region.box; });
    if (same != log.written.end()) {
      carve(log.read, region.box);
      same->node = node;
      return;
    }
    forget(region);
    log.written.push_back({region.box, node});
    return;
  }
  for (Read& r : log.read) {
    if (r.box == region.box) {
      r.nodes.push_back(node);
      return;
    }
  }
  log.read.push_back({region.box, {node}});
}

}  // namespace serval
