#include "scheduler/access_log.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

// Takes `cut` out of every entry's box. Entries keep their order, which is mostly that of the nodes.
template <class Entry>
void carve(std::vector<Entry>& entries, const Box& cut) {
  std::vector<Box> rest;
  std::vector<Entry> split;
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].box.overlaps(cut)) {
      rest.clear();
      append_difference(entries[i].box, cut, rest);
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
