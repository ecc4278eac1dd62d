#include "scheduler/access_log.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

// Takes `cut` out of the box of every entry up to `until`. Entries keep their order, which is mostly that of
// the nodes.
template <class Entry>
void carve(std::vector<Entry>& entries, const Box& cut, uint32_t until) {
  std::vector<Box> rest;
  std::vector<Entry> split;
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].time <= until && entries[i].box.overlaps(cut)) {
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

bool of_one_deal(const Region& a, const Region& b) {
  return a.part == b.part && a.layout == b.layout && a.box == b.box;
}

}  // namespace

void AccessLog::deal_out(Log& log, const Region& region) {
  auto deal = std::find_if(log.deals.begin(), log.deals.end(),
                           [&](const Deal& d) { return of_one_deal(d.region, region); });
  if (deal == log.deals.end()) deal = log.deals.insert(deal, {region, 0, 0, {}});
  if (deal->count == 0 || deal->has[region.share]) {
    deal->begin = log.time++;
    deal->count = 0;
    deal->has.assign(region.layout, false);
  }
  deal->has[region.share] = true;
  if (++deal->count < region.layout) return;
  carve(log.written, region.box, deal->begin);
  carve(log.read, region.box, deal->begin);
  deal->count = 0;
}

void AccessLog::forget(const Region& region) {
  Log& log = tensors_[region.tensor.index];
  if (is_dealt(region.part)) return deal_out(log, region);
  carve(log.written, region.box, log.time);
  carve(log.read, region.box, log.time);
}

void AccessLog::record(const Region& region, uint32_t node) {
  Log& log = tensors_[region.tensor.index];
  if (writes(region.access) && is_dealt(region.part)) {
    deal_out(log, region);
    log.written.push_back({region.box, node, log.time, region});
    return;
  }
  if (writes(region.access)) {
    // The same division of a tensor is written layer after layer: then only a name changes.
    const auto same = std::find_if(log.written.begin(), log.written.end(), [&](const Written& w) {
      return w.box == region.box && !is_dealt(w.region.part);
    });
    if (same != log.written.end() && log.deals.empty()) {
      carve(log.read, region.box, log.time);
      same->node = node;
      return;
    }
    forget(region);
    log.written.push_back({region.box, node, log.time, region});
    return;
  }
  for (Read& r : log.read) {
    if (r.box == region.box && r.time == log.time) {
      r.nodes.push_back(node);
      return;
    }
  }
  log.read.push_back({region.box, {node}, log.time});
}

}  // namespace serval
