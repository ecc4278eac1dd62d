#include "vm/state/check_attention.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "vm/base/error.h"
#include "vm/state/names.h"

namespace serval {
namespace {

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> what, Args&&... args) {
  throw Error(ErrorKind::kUsage, "state: attention: " + fmt::format(what, std::forward<Args>(args)...));
}

// Rows from this one on are not active.
uint32_t active_rows(const StateBlock& state, uint32_t rows) {
  while (rows > 0 && !row_is_active(state.rows[rows - 1])) --rows;
  return rows;
}

// A set of KV heads, one bit each.
using HeadSet = uint64_t;
constexpr uint32_t kHeadsOfSet = std::numeric_limits<HeadSet>::digits;

class AttentionCheck {
 public:
  AttentionCheck(const Program& program, const StateBlock& state)
      : limits_(program.limits),
        state_(state),
        list_(state.attention),
        heads_(program.heads.kv_heads),
        rows_(active_rows(state, limits_.rows)),
        sms_(program.machine.sms) {}

  void run() {
    check_ranges();
    if (all_is_whole()) return;
    check_splits();
    next_leaf_.assign(size_t{rows_} * heads_, 0);
    check_items();
    check_ends();
  }

 private:
  // Checks the items in the order of their leaves, whichever records have them.
  void check_items() {
    const auto first_leaf = [&](uint32_t i) { return list_.item()[i].first_leaf; };
    std::vector<uint32_t> order(list_.items);
    std::iota(order.begin(), order.end(), 0);
    if (!std::ranges::is_sorted(order, {}, first_leaf)) std::ranges::stable_sort(order, {}, first_leaf);
    for (const uint32_t i : order) check_item(i);
  }
  void check_ranges() const {
    if (list_.records != sms_) refuse("{} records, the program has {} SMs", list_.records, sms_);
    if (list_.items > attention_items(limits_.rows))
      refuse("{} items; limit: {}", list_.items, attention_items(limits_.rows));
    if (list_.splits > 0 && attention_is_whole(limits_.max_context))
      refuse("{} splits; limit: 0 (a sequence has one leaf)", list_.splits);
    if (list_.splits > kMostAttentionSplits)
      refuse("{} splits; limit: {}", list_.splits, kMostAttentionSplits);
    const uint32_t* begin = list_.begin;
    if (begin[0] != 0 || begin[sms_] != list_.items || !std::is_sorted(begin, begin + sms_ + 1))
      refuse("the records' ranges are not the {} items", list_.items);
  }

  // The common case, checked quickly: every active row and KV head has exactly one item, which has all its
  // leaves. Returns false for any other list; then the slower checks report errors.
  bool all_is_whole() const {
    if (list_.splits > 0 || list_.split_rows > 0 || heads_ == 0 || heads_ > kHeadsOfSet) return false;
    std::vector<HeadSet> taken(rows_, 0);
    const std::span<const AttentionItem> items(list_.item(), list_.items);
    if (!std::ranges::all_of(items, [&](const AttentionItem& item) { return takes_whole(item, taken); }))
      return false;
    for (uint32_t r = 0; r < rows_; ++r) {
      if (row_is_active(state_.rows[r]) && taken[r] != heads_from(0, heads_)) return false;
    }
    return true;
  }
  bool takes_whole(const AttentionItem& item, std::span<HeadSet> taken) const {
    const bool in_range = item.rows > 0 && item.rows <= rows_ && item.first_row <= rows_ - item.rows &&
                          item.heads > 0 && item.heads <= heads_ && item.first_head <= heads_ - item.heads;
    if (!in_range || !is_whole(item)) return false;
    const HeadSet heads = heads_from(item.first_head, item.heads);
    for (uint32_t r = item.first_row; r < item.first_row + item.rows; ++r) {
      const PassRow& row = state_.rows[r];
      if (!row_is_active(row) || row.slot != item.slot || (taken[r] & heads) != 0) return false;
      taken[r] |= heads;
    }
    return true;
  }
  static HeadSet heads_from(uint32_t first, uint32_t count) {
    return ~HeadSet{0} >> (kHeadsOfSet - count) << first;
  }

  void check_splits() {
    if (list_.splits > 0) split_of_.assign(size_t{limits_.rows} * heads_, kNone);
    std::vector<uint32_t> order(list_.splits);
    std::iota(order.begin(), order.end(), 0);
    uint32_t rows = 0;
    for (uint32_t s = 0; s < list_.splits; ++s) {
      const AttentionSplit& split = list_.split[s];
      if (split.rows == 0 || split.rows > limits_.rows || split.first_row > limits_.rows - split.rows ||
          split.head >= heads_)
        refuse("split {}: rows {} of {}, KV head {}", s, split.rows, split.first_row, split.head);
      if (split.rows_before != rows)
        refuse("split {}: {} rows before, expected {}", s, split.rows_before, rows);
      rows += split.rows;
      const uint64_t end = split.first_place + uint64_t{split.rows} * split.row_places;
      if (split.prefix_leaves == 0 || split.row_places == 0 || end > kAttentionPlaces)
        refuse("split {}: {} places of {} rows from {} on; limit: {}", s, split.row_places, split.rows,
               split.first_place, kAttentionPlaces);
      for (uint32_t r = split.first_row; r < split.first_row + split.rows; ++r) {
        if (std::exchange(split_of_[size_t{r} * heads_ + split.head], s) != kNone)
          refuse("split {}: row {} and KV head {} are in another", s, r, split.head);
      }
    }
    if (rows != list_.split_rows) refuse("{} rows of splits, expected {}", list_.split_rows, rows);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return list_.split[a].first_place < list_.split[b].first_place;
    });
    for (uint32_t n = 1; n < order.size(); ++n) {
      const AttentionSplit &before = list_.split[order[n - 1]], &split = list_.split[order[n]];
      if (before.first_place + before.rows * before.row_places > split.first_place)
        refuse("splits {} and {} share a place", order[n - 1], order[n]);
    }
  }

  void check_item(uint32_t i) {
    const AttentionItem& item = list_.item()[i];
    if (item.rows == 0 || item.rows > limits_.rows || item.first_row > limits_.rows - item.rows)
      refuse("item {}: rows {} of {}; limit: {}", i, item.rows, item.first_row, limits_.rows);
    if (item.heads == 0 || item.heads > heads_ || item.first_head > heads_ - item.heads)
      refuse("item {}: KV heads {} of {}; limit: {}", i, item.heads, item.first_head, heads_);
    if (item.first_leaf >= item.end_leaf)
      refuse("item {}: leaves {} to {}", i, item.first_leaf, item.end_leaf);
    for (uint32_t n = 0; n < item.rows; ++n) {
      const PassRow& row = state_.rows[item.first_row + n];
      if (!row_is_active(row) || row.slot != item.slot)
        refuse("item {}: row {} is not an active one of slot {}", i, item.first_row + n, item.slot);
      for (uint32_t h = item.first_head; h < item.first_head + item.heads; ++h) check_part(i, n, h);
    }
  }

  static bool is_whole(const AttentionItem& item) {
    return item.first_leaf == 0 && item.end_leaf == kToTheEnd && item.first_place == kNoPlace;
  }
  uint32_t split_at(size_t row_and_head) const { return split_of_.empty() ? kNone : split_of_[row_and_head]; }

  // Checks a row and head of an item: it begins at the leaf where the previous item ended, and partial
  // results have their places.
  void check_part(uint32_t i, uint32_t n, uint32_t head) {
    const AttentionItem& item = list_.item()[i];
    const size_t at = size_t{item.first_row + n} * heads_ + head;
    if (next_leaf_[at] != item.first_leaf) {
      refuse("item {}: row {}, KV head {}: begins with leaf {}, expected {}", i, item.first_row + n, head,
             item.first_leaf, next_leaf_[at]);
    }
    next_leaf_[at] = item.end_leaf;
    const uint32_t s = split_at(at);
    if (s == kNone && is_whole(item)) return;
    bool right = s != kNone && item.heads == 1;
    if (right) {
      const AttentionSplit& split = list_.split[s];
      const uint32_t row_place =
          split.first_place + (item.first_row + n - split.first_row) * split.row_places;
      const uint32_t place = item.first_place + n * item.row_places;
      right = item.row_places == split.row_places &&
              (item.first_leaf == 0 ? item.end_leaf == split.prefix_leaves && place == row_place
                                    : place == row_place + 1 + item.first_leaf - split.prefix_leaves);
    }
    if (!right) refuse("item {}: its places are not those of a split of row {}", i, item.first_row + n);
  }

  void check_ends() const {
    for (uint32_t r = 0; r < rows_; ++r) {
      if (!row_is_active(state_.rows[r])) continue;
      const uint32_t leaves = planned_leaves(last_position(state_, state_.rows[r]) + 1);
      for (uint32_t h = 0; h < heads_; ++h) {
        const size_t at = size_t{r} * heads_ + h;
        if (next_leaf_[at] < leaves)
          refuse("row {}, KV head {}: no item has its leaves from {} on", r, h, next_leaf_[at]);
        const uint32_t s = split_at(at);
        if (s == kNone) continue;
        const AttentionSplit& split = list_.split[s];
        if (leaves > split.prefix_leaves && leaves - split.prefix_leaves + 1 > split.row_places)
          refuse("split {}: {} places for the {} leaves of row {}", s, split.row_places, leaves, r);
      }
    }
  }

  static constexpr uint32_t kNone = 0xffffffff;
  const StateLimits& limits_;
  const StateBlock& state_;
  const AttentionList& list_;
  const uint32_t heads_;
  const uint32_t rows_;  // rows from this one on are not active
  const uint32_t sms_;
  std::vector<uint32_t> next_leaf_;  // [rows_, heads]
  std::vector<uint32_t> split_of_;   // [limits_.rows, heads]; empty if nothing is split
};

}  // namespace

void check_attention(const Program& program, const StateBlock& state) {
  if (program.find_tensor(state_tensor::kAttention)) AttentionCheck(program, state).run();
}

uint32_t last_position(const StateBlock& state, const PassRow& row) {
  const uint32_t end = state.slots[row.slot].end_position;
  if (row.wants_logits == 0 || end <= row.position) return row.position;
  const uint64_t tokens = uint64_t{state.control.passes_wanted} * (1 + row.drafts);
  return row.position + static_cast<uint32_t>(std::min<uint64_t>(tokens, end - row.position)) - 1;
}

}  // namespace serval
