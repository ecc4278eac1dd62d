#include "scheduler/access_log.h"

#include <algorithm>

namespace serval {
namespace {

bool same_division(const Region& a, const Region& b) {
  return a.part == b.part && a.layout == b.layout && a.box == b.box;
}

}  // namespace

void AccessLog::cut_reads(Log& log) {
  if (log.pending.empty()) return;
  Box all = log.pending.front();
  uint64_t sum = 0;
  for (const Box& box : log.pending) {
    all = bounds(all, box);
    sum += area(box);
  }
  if (sum == area(all)) log.pending.assign(1, all);
  for (const Box& box : log.pending) log.read.carve(box, log.time);
  log.pending.clear();
  ++log.next_cut;
  log.latest = kNotReaders;
}

void AccessLog::carve(Log& log, const Box& cut, uint32_t until) {
  cut_reads(log);
  log.latest = kNotReaders;
  log.read.carve(cut, until);
  log.written.carve(cut, until);
}

void AccessLog::add_share(Log& log, const Region& region) {
  auto division = std::find_if(log.divisions.begin(), log.divisions.end(),
                               [&](const Division& d) { return same_division(d.region, region); });
  if (division == log.divisions.end()) division = log.divisions.insert(division, {region, 0, 0, {}});
  if (division->count == 0 || division->written[region.share]) {
    division->begin = log.time++;
    log.latest = kNotReaders;
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
    // Each layer writes a tensor in the same division: then only the writer changes.
    Written* const same = log.written.find(region.box, [](const Written& w) { return !is_divided(w.part); });
    if (same != nullptr && log.divisions.empty()) {
      same->node = node;
      if (log.read.empty() || same->cut == log.next_cut) return;
      same->cut = log.next_cut;
      log.pending.push_back(region.box);
      return;
    }
    forget(region);
  }
  log.written.add({region.box, node, log.time, region.access, region.part, region.layout, region.share});
}

// Nodes that read the same box share a list. If a write has cut the box, its pieces still share the old list,
// so a node that reads only a piece gets a new one.
void AccessLog::record_read(Log& log, const Box& box, uint32_t node) {
  cut_reads(log);
  if (log.latest != kNotReaders && readers_[log.latest].box == box) {
    readers_[log.latest].nodes.push_back(node);
    return;
  }
  const Read* const same =
      log.read.find(box, [&](const Read& r) { return r.time == log.time && readers_[r.readers].box == box; });
  if (same != nullptr) {
    log.latest = same->readers;
    readers_[log.latest].nodes.push_back(node);
  } else {
    log.latest = static_cast<uint32_t>(readers_.size());
    log.read.add({box, log.latest, log.time});
    readers_.push_back({box, {node}});
  }
}

}  // namespace serval
