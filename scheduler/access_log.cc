#include "scheduler/access_log.h"

#include <algorithm>

#include "scheduler/boxes.h"

namespace serval {
namespace {

constexpr auto kFirstColumn = [](const auto& entry) { return entry.box.col_begin; };

// Takes `cut` out of the box of every entry up to `until`. Entries keep their order, but for those that
// are cut in two. What is left with other rows goes to `moved`.
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

void AccessLog::Band::add(const Written& entry) {
  written.insert(std::ranges::upper_bound(written, entry.box.col_begin, {}, kFirstColumn), entry);
  widest = std::max(widest, entry.box.col_end - entry.box.col_begin);
}

AccessLog::Written* AccessLog::Band::find(const Box& box) {
  auto entry = std::ranges::lower_bound(written, box.col_begin, {}, kFirstColumn);
  for (; entry != written.end() && entry->box.col_begin == box.col_begin; ++entry) {
    if (entry->box == box && !is_dealt(entry->region.part)) return &*entry;
  }
  return nullptr;
}

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
    if (!band.overlaps(cut)) continue;
    carve_entries(band.written, cut, until, moved);
    if (!std::ranges::is_sorted(band.written, {}, kFirstColumn))
      std::ranges::stable_sort(band.written, {}, kFirstColumn);
  }
  for (const Written& entry : moved) band_of(log, entry.box).add(entry);
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
    Band& band = band_of(log, region.box);
    Written* const same = band.find(region.box);
    if (same != nullptr && log.deals.empty()) {
      same->node = node;
      return carve_read(log, region.box, log.time);
    }
    forget(region);
  }
  band_of(log, region.box).add({region.box, node, log.time, region});
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
