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

// Takes `cut` out of every entry's box. Most writes replace exactly one earlier box or none, which costs no
// copy.
template <class Entry>
void carve(std::vector<Entry>& entries, const Box& cut) {
  std::vector<Box> rest;
  for (size_t i = 0; i < entries.size();) {
    if (!entries[i].box.overlaps(cut)) {
      ++i;
      continue;
    }
    rest.clear();
    append_remainder(entries[i].box, cut, rest);
    if (rest.empty()) {
      std::swap(entries[i], entries.back());
      entries.pop_back();
      continue;
    }
    entries[i].box = rest[0];
    for (size_t r = 1; r < rest.size(); ++r) {
      Entry copy = entries[i];
      copy.box = rest[r];
      entries.push_back(std::move(copy));
    }
    ++i;
  }
}

}  // namespace

void AccessLog::conflicts(const Region& region, std::vector<uint32_t>& out) const {
  const Log& log = tensors_[region.tensor.index];
  for (const Written& w : log.written) {
    if (w.box.overlaps(region.box)) out.push_back(w.node);
  }
  if (!writes(region.access)) return;
  for (const Read& r : log.read) {
    if (r.box.overlaps(region.box)) out.insert(out.end(), r.nodes.begin(), r.nodes.end());
  }
}

void AccessLog::record(const Region& region, uint32_t node) {
  Log& log = tensors_[region.tensor.index];
  if (writes(region.access)) {
    // Whoever comes later and meets the old entries inside this box meets this write as well, which waited
    // for them.
    carve(log.written, region.box);
    carve(log.read, region.box);
    log.written.push_back({region.box, node});
    ++log.writes_version;
    return;
  }
  ++log.reads_version;
  for (Read& r : log.read) {
    if (r.box == region.box) {
      r.nodes.push_back(node);
      return;
    }
  }
  log.read.push_back({region.box, {node}});
}

}  // namespace serval
