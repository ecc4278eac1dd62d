#include "scheduler/access_log.h"

#include <algorithm>

namespace serval {
namespace {

bool same_division(const Region& a, const Region& b) {
  return a.part == b.part && a.layout == b.layout && a.box == b.box;
}

}  // namespace

void AccessLog::carve(Log& log, const Box& cut, uint32_t until) {
  log.read.carve(cut, until);
  log.written.carve(cut, until);
}

void AccessLog::add_share(Log& log, const Region& region) {
  auto division = std::find_if(log.divisions.begin(), log.divisions.end(),
                               [&](const Division& d) { return same_division(d.region, region); });
  if (division == log.divisions.end()) division = log.divisions.insert(division, {region, 0, 0, {}});
  if (division->count == 0 || division->written[region.share]) {
    division->begin = log.time++;
    division->count = 0;
    division->written.assign(region.layout, false);
  }
  division->written[region.share] = true;
  if (++division->count < region.layout) return;
  carve(log, region.box, division->begin);
  division->count = 0;
}

void AccessLog::forget(const Region& region) {
  Log& log = tensors_[region.tensor.index];
  ++log.writes;
  if (is_divided(region.part)) return add_share(log, region);
  carve(log, region.box, log.time);
}

void AccessLog::record(const Region& region, uint32_t node) {
  Log& log = tensors_[region.tensor.index];
  if (!writes(region.access)) return record_read(log, region.box, node);
  ++log.writes;
  if (is_divided(region.part)) {
    add_share(log, region);
  } else {
    // Each layer writes the same boxes: then only the node changes.
    Written* const same =
        log.written.find(region.box, [](const Written& w) { return !is_divided(w.region.part); });
    if (same != nullptr && log.divisions.empty()) {
      same->node = node;
      return log.read.carve(region.box, log.time);
    }
    forget(region);
  }
  log.written.add({region.box, node, log.time, region});
}

// Nodes that read the same box share a list. If a write has cut the box, its pieces still share the old list,
// so a node that reads only a piece gets a new one.
void AccessLog::record_read(Log& log, const Box& box, uint32_t node) {
  const Read* const same =
      log.read.find(box, [&](const Read& r) { return r.time == log.time && readers_[r.readers].box == box; });
  if (same != nullptr) {
    readers_[same->readers].nodes.push_back(node);
  } else {
    log.read.add({box, static_cast<uint32_t>(readers_.size()), log.time});
    readers_.push_back({box, {node}});
  }
}

}  // namespace serval
