#include "scheduler/access_log.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

// Takes `cut` out of the box of every entry up to `until`. Entries keep their order, which is mostly that of
// the nodes. What is left with other rows goes to `moved`.
template <class Entry>
void carve_entries(std::vector<Entry>& entries, const Box& cut, uint32_t until, std::vector<Entry>& moved) {
  std::vector<Box> rest;
  std::vector<Entry> split;
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].time <= until && entries[i].box.overlaps(cut)) {
      const Box whole = entries[i].box;
      rest.clear();
      append_difference(whole, cut, rest);
      bool stays = false;
      for (const Box& box : rest) {
        const bool same_rows = box.row_begin == whole.row_begin && box.row_end == whole.row_end;
        if (same_rows && !stays) {
          entries[i].box = box;
          stays = true;
          continue;
        }
        (same_rows ? split : moved).push_back(entries[i]);
        (same_rows ? split : moved).back().box = box;
      }
      if (!stays) continue;
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

AccessLog::Band& AccessLog::band_of(Log& log, const Box& box) {
  const auto band = std::find_if(log.bands.begin(), log.bands.end(), [&](const Band& b) {
    return b.row_begin == box.row_begin && b.row_end == box.row_end;
  });
  if (band != log.bands.end()) return *band;
  std::erase_if(log.bands, [](const Band& b) { return b.written.empty() && b.read.empty(); });
  return log.bands.emplace_back(Band{box.row_begin, box.row_end});
}

void AccessLog::carve_read(Log& log, const Box& cut, uint32_t until) {
  std::vector<Read> moved;
  for (Band& band : log.bands) {
    if (band.overlaps(cut)) carve_entries(band.read, cut, until, moved);
  }
  for (Read& entry : moved) band_of(log, entry.box).read.push_back(std::move(entry));
}

void AccessLog::carve(Log& log, const Box& cut, uint32_t until) {
  carve_read(log, cut, until);
  std::vector<Written> moved;
  for (Band& band : log.bands) {
    if (band.overlaps(cut)) carve_entries(band.written, cut, until, moved);
  }
  for (const Written& entry : moved) band_of(log, entry.box).written.push_back(entry);
}

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
  carve(log, region.box, deal->begin);
  deal->count = 0;
}

void AccessLog::forget(const Region& region) {
  Log& log = tensors_[region.tensor.index];
  ++log.writes;
  if (is_dealt(region.part)) return deal_out(log, region);
  carve(log, region.box, log.time);
}

void AccessLog::record(const Region& region, uint32_t node) {
  Log& log = tensors_[region.tensor.index];
  if (!writes(region.access)) return record_read(log, region.box, node);
  ++log.writes;
  if (is_dealt(region.part)) {
    deal_out(log, region);
  } else {
    // The same division of a tensor is written layer after layer: then only a name changes.
    std::vector<Written>& written = band_of(log, region.box).written;
    const auto same = std::find_if(written.begin(), written.end(), [&](const Written& w) {
      return w.box == region.box && !is_dealt(w.region.part);
    });
    if (same != written.end() && log.deals.empty()) {
      same->node = node;
      return carve_read(log, region.box, log.time);
    }
    forget(region);
  }
  band_of(log, region.box).written.push_back({region.box, node, log.time, region});
}

void AccessLog::record_read(Log& log, const Box& box, uint32_t node) {
  std::vector<Read>& read = band_of(log, box).read;
  const auto same = std::find_if(read.begin(), read.end(),
                                 [&](const Read& r) { return r.box == box && r.time == log.time; });
  if (same != read.end()) {
    same->nodes.push_back(node);
  } else {
    read.push_back({box, {node}, log.time});
  }
}

}  // namespace serval
