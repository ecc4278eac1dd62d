// An index of boxes of a tensor, each with data of its own, that finds the boxes that overlap another.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "scheduler/boxes.h"

namespace serval {

// Items by their keys, in blocks, so that one more takes no time that grows with all. Keys may be equal. Not
// thread-safe, searches included: they remember where they ended.
template <class Item, class KeyOf>
class SortedBlocks {
 public:
  // A block is empty only if it is the only one.
  bool empty() const { return blocks_.empty() || blocks_.front().empty(); }
  size_t blocks() const { return blocks_.size(); }
  Item& add(Item item) {
    if (blocks_.empty()) blocks_.emplace_back();
    auto block = blocks_.begin();
    if (blocks_.size() > 1) {
      block = std::ranges::upper_bound(blocks_, kKey(item), {}, kFirstKey);
      if (block != blocks_.begin()) --block;
    }
    if (block->size() == kMostInBlock) {
      const auto middle = block->begin() + kMostInBlock / 2;
      std::vector<Item> half(std::make_move_iterator(middle), std::make_move_iterator(block->end()));
      block->erase(middle, block->end());
      const bool in_half = !(kKey(item) < kKey(half.front()));
      block = blocks_.insert(block + 1, std::move(half)) - (in_half ? 0 : 1);
    }
    return *block->insert(std::ranges::upper_bound(*block, kKey(item), {}, kKey), std::move(item));
  }
  // Calls fn(item) for the items from key `from` on, in order, until it returns false.
  template <class Key, class Fn>
  void for_from(const Key& from, Fn&& fn) const {
    for (size_t b = first_block(from); b < blocks_.size(); ++b) {
      const std::vector<Item>& block = blocks_[b];
      for (auto i = first_in(block, from); i != block.end(); ++i) {
        if (!fn(*i)) return;
      }
    }
  }
  // Returns an item with the key for which `is_wanted` is true; null if there is none.
  template <class Key, class IsWanted>
  Item* find(const Key& key, IsWanted&& is_wanted) {
    for (size_t b = first_block(key); b < blocks_.size(); ++b) {
      std::vector<Item>& block = blocks_[b];
      for (auto i = first_in(block, key); i != block.end(); ++i) {
        if (kKey(*i) != key) return nullptr;
        if (is_wanted(*i)) return &*i;
      }
    }
    return nullptr;
  }
  // Erases the items with keys in [from, end) for which fn(item) is true. fn may change the items that stay,
  // except their keys.
  template <class Key, class Fn>
  void erase_between(const Key& from, const Key& end, Fn&& fn) {
    const size_t first = first_block(from);
    bool any_empty = false;
    size_t b = first;
    for (; b < blocks_.size() && !blocks_[b].empty() && kKey(blocks_[b].front()) < end; ++b) {
      std::vector<Item>& block = blocks_[b];
      auto i = first_in(block, from);
      auto kept = i;
      for (; i != block.end() && kKey(*i) < end; ++i) {
        if (fn(*i)) continue;
        if (kept != i) *kept = std::move(*i);
        ++kept;
      }
      if (kept != i) block.erase(kept, i);
      any_empty |= block.empty();
    }
    if (any_empty && blocks_.size() > 1) erase_empty(first, b);
  }

 private:
  static constexpr size_t kMostInBlock = 256;  // more than the windows of most stages
  static constexpr KeyOf kKey = {};
  static constexpr auto kFirstKey = [](const std::vector<Item>& block) { return kKey(block.front()); };
  static constexpr auto kLastKey = [](const std::vector<Item>& block) { return kKey(block.back()); };
  // Index of the first block that may contain keys from `from` on.
  template <class Key>
  size_t first_block(const Key& from) const {
    if (blocks_.size() < 2) return 0;
    return static_cast<size_t>(std::ranges::lower_bound(blocks_, from, {}, kLastKey) - blocks_.begin());
  }
  // The first item of a block whose key is not less. Instructions of a stage mostly ask for one item after
  // the other: the first item, the last answer and the item after it need no search.
  template <class Key>
  auto first_in(auto& block, const Key& from) const {
    const size_t items = block.size();
    const auto is_before = [&](size_t i) { return kKey(block[i]) < from; };
    if (items == 0 || !is_before(0)) return block.begin();
    if (last_ - 1 < items && is_before(last_ - 1)) {  // unsigned: no item before the first
      if (last_ < items && is_before(last_)) ++last_;
      if (last_ == items || !is_before(last_)) return block.begin() + static_cast<std::ptrdiff_t>(last_);
    }
    const auto found = std::ranges::lower_bound(block.begin() + 1, block.end(), from, {}, kKey);
    last_ = static_cast<size_t>(found - block.begin());
    return found;
  }
  void erase_empty(size_t first, size_t end) {
    const auto begin = blocks_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto last = blocks_.begin() + static_cast<std::ptrdiff_t>(end);
    blocks_.erase(std::remove_if(begin, last, [](const auto& block) { return block.empty(); }), last);
  }

  std::vector<std::vector<Item>> blocks_;
  mutable size_t last_ = 0;  // where first_in() has found an item
};

// An Entry has a `box` and the `time` at which it was added. Boxes may overlap. Levels hold boxes of similar
// height and width, bands of a level those with the same rows, sorted by column. So a query visits few boxes
// that do not overlap it.
template <class Entry>
class BoxIndex {
 public:
  bool empty() const {
    return std::ranges::all_of(levels_, [](const Level& level) { return level.entries == 0; });
  }
  void add(const Entry& entry) {
    auto level = level_of(entry.box);
    if (level == levels_.end()) {
      level = levels_.insert(level, {bits_of(entry.box.row_begin, entry.box.row_end),
                                     bits_of(entry.box.col_begin, entry.box.col_end)});
    }
    if (level->entries == 0) level->highest = level->widest = 0;
    level->highest = std::max(level->highest, entry.box.row_end - entry.box.row_begin);
    level->widest = std::max(level->widest, entry.box.col_end - entry.box.col_begin);
    Band* band = level->bands.find(rows_of(entry.box), kAny);
    if (band == nullptr) band = &level->bands.add({rows_of(entry.box), {}});
    band->entries.add(entry);
    ++level->entries;
  }
  // Calls fn(entry) for each entry whose box overlaps `box`.
  template <class Fn>
  void for_overlapping(const Box& box, Fn&& fn) const {
    for (const Level& level : levels_) {
      if (level.entries == 0) continue;
      level.bands.for_from(first_row_near(box, level), [&](const Band& band) {
        ++visited_;
        if (band.rows.first >= box.row_end) return false;
        if (band.rows.second <= box.row_begin) return true;
        band.entries.for_from(first_near(box.col_begin, level.widest), [&](const Entry& entry) {
          ++visited_;
          if (entry.box.col_begin >= box.col_end) return false;
          if (box.col_begin < entry.box.col_end) fn(entry);
          return true;
        });
        return true;
      });
    }
  }
  // Number of bands and entries that for_overlapping() has visited so far.
  uint64_t visited() const { return visited_; }
  // Returns an entry with exactly this box for which `is_wanted` is true; null if there is none.
  template <class IsWanted>
  Entry* find(const Box& box, IsWanted&& is_wanted) {
    const auto level = level_of(box);
    if (level == levels_.end()) return nullptr;
    Band* const band = level->bands.find(rows_of(box), kAny);
    if (band == nullptr) return nullptr;
    return band->entries.find(box.col_begin,
                              [&](const Entry& entry) { return entry.box == box && is_wanted(entry); });
  }
  // Removes `cut` from the boxes of all entries up to time `until`.
  void carve(const Box& cut, uint32_t until) {
    for (Level& level : levels_) {
      if (level.entries == 0) continue;
      level.bands.erase_between(first_row_near(cut, level), Rows{cut.row_end, 0}, [&](Band& band) {
        if (cut.row_begin < band.rows.second) carve_band(level, band.entries, cut, until);
        // A few empty bands are worth keeping: the next layer fills them again.
        return band.entries.empty() && level.bands.blocks() > 1;
      });
    }
    for (const Entry& piece : pieces_) add(piece);
    pieces_.clear();
  }

 private:
  using Rows = std::pair<uint64_t, uint64_t>;
  struct FirstColumn {
    uint64_t operator()(const Entry& entry) const { return entry.box.col_begin; }
  };
  using Entries = SortedBlocks<Entry, FirstColumn>;
  struct Band {
    Rows rows;
    Entries entries;
  };
  struct RowsOfBand {
    Rows operator()(const Band& band) const { return band.rows; }
  };
  static constexpr auto kAny = [](const auto&) { return true; };
  struct Level {
    int rows, cols;                    // bits that heights and widths have, at most
    uint64_t highest = 0, widest = 0;  // of the entries added since there were none
    size_t entries = 0;
    SortedBlocks<Band, RowsOfBand> bands = {};
  };
  static Rows rows_of(const Box& box) { return {box.row_begin, box.row_end}; }
  // Coarse, so that the pieces of a box mostly stay in its level.
  static int bits_of(uint64_t begin, uint64_t end) {
    constexpr int kStep = 5;
    return (static_cast<int>(std::bit_width(end - begin)) + kStep - 1) / kStep * kStep;
  }
  // The first place from which such a length may reach beyond `begin`.
  static uint64_t first_near(uint64_t begin, uint64_t longest) {
    return begin - std::min(begin, longest - 1);
  }
  static Rows first_row_near(const Box& box, const Level& level) {
    return {first_near(box.row_begin, level.highest), 0};
  }
  auto level_of(const Box& box) {
    const int rows = bits_of(box.row_begin, box.row_end), cols = bits_of(box.col_begin, box.col_end);
    return std::ranges::find_if(levels_,
                                [&](const Level& level) { return level.rows == rows && level.cols == cols; });
  }
  // Collects the remaining pieces of cut entries in pieces_. A piece that fits the entry's place stays there.
  void carve_band(Level& level, Entries& entries, const Box& cut, uint32_t until) {
    entries.erase_between(first_near(cut.col_begin, level.widest), cut.col_end, [&](Entry& entry) {
      if (entry.time > until || !entry.box.overlaps(cut)) return false;
      const Box whole = entry.box;
      bool stays = false;
      for_difference(whole, cut, [&](const Box& piece) {
        if (piece.col_begin == whole.col_begin && piece.row_begin == whole.row_begin &&
            piece.row_end == whole.row_end && bits_of(piece.col_begin, piece.col_end) == level.cols) {
          entry.box = piece;
          stays = true;
        } else {
          pieces_.push_back(entry);
          pieces_.back().box = piece;
        }
      });
      level.entries -= stays ? 0 : 1;
      return !stays;
    });
  }

  std::vector<Level> levels_;
  std::vector<Entry> pieces_;
  mutable uint64_t visited_ = 0;
};

}  // namespace serval
