// Boxes of the same rows, each with what is known of it, by their first column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/boxes.h"

namespace serval {

// An Entry has a `box`, and the `time` at which it was added. Boxes may overlap.
template <class Entry>
class BoxesByColumn {
 public:
  bool empty() const { return entries_.empty(); }

  void add(const Entry& entry) {
    const auto at = std::ranges::upper_bound(entries_, entry.box.col_begin, {}, kFirstColumn);
    entries_.insert(at, entry);
    widest_ = std::max(widest_, width(entry.box));
  }
  // Calls fn(entry) for each whose columns overlap those of the box.
  template <class Fn>
  void for_overlapping(const Box& box, Fn&& fn) const {
    for (size_t i = first_near(box); i < entries_.size() && entries_[i].box.col_begin < box.col_end; ++i) {
      if (box.col_begin < entries_[i].box.col_end) fn(entries_[i]);
    }
  }
  // One with the very same box that `is_wanted`, null if there is none.
  template <class IsWanted>
  Entry* find(const Box& box, IsWanted&& is_wanted) {
    auto entry = std::ranges::lower_bound(entries_, box.col_begin, {}, kFirstColumn);
    for (; entry != entries_.end() && entry->box.col_begin == box.col_begin; ++entry) {
      if (entry->box == box && is_wanted(*entry)) return &*entry;
    }
    return nullptr;
  }
  // Takes `cut` out of the box of every entry up to `until`. What is left of one in several pieces, or with
  // other rows, goes to `pieces` but for the first piece with the entry's rows and first column.
  void carve(const Box& cut, uint32_t until, std::vector<Entry>& pieces);

 private:
  static constexpr auto kFirstColumn = [](const Entry& entry) { return entry.box.col_begin; };
  static uint64_t width(const Box& box) { return box.col_end - box.col_begin; }
  // The first whose columns may overlap those of the box.
  size_t first_near(const Box& box) const {
    const uint64_t from = box.col_begin - std::min(box.col_begin, widest_);
    return static_cast<size_t>(std::ranges::lower_bound(entries_, from, {}, kFirstColumn) - entries_.begin());
  }
  void find_widest() {
    widest_ = 0;
    for (const Entry& entry : entries_) widest_ = std::max(widest_, width(entry.box));
  }

  std::vector<Entry> entries_;
  uint64_t widest_ = 0;  // columns of one
};

template <class Entry>
void BoxesByColumn<Entry>::carve(const Box& cut, uint32_t until, std::vector<Entry>& pieces) {
  bool was_widest = false;
  auto entry = entries_.begin() + static_cast<std::ptrdiff_t>(first_near(cut));
  auto kept = entry;
  for (; entry != entries_.end() && entry->box.col_begin < cut.col_end; ++entry) {
    const Box whole = entry->box;
    bool stays = entry->time > until || !whole.overlaps(cut);
    if (!stays) {
      was_widest |= width(whole) == widest_;
      for_difference(whole, cut, [&](const Box& piece) {
        const bool same_rows = piece.row_begin == whole.row_begin && piece.row_end == whole.row_end;
        if (same_rows && piece.col_begin == whole.col_begin) {
          entry->box = piece;
          stays = true;
        } else {
          pieces.push_back(*entry);
          pieces.back().box = piece;
        }
      });
    }
    if (!stays) continue;
    if (kept != entry) *kept = *entry;
    ++kept;
  }
  if (kept != entry) entries_.erase(kept, entry);
  if (was_widest) find_widest();
}

}  // namespace serval
