#include "instructions/planned_attention/plan.h"

#include <algorithm>
#include <vector>

#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

// Predicted times, in tenths of the time of a block of keys with one tile of rows. Two tiles share the keys
// and overlap. Beginning an item (its rows, queries and results) has a cost of its own.
constexpr uint64_t kBlockOfOneTile = 10, kBlockOfTwoTiles = 16, kItemBegins = 14;
constexpr uint32_t kLeafBlocksPlanned = kPlannedLeafTokens / kKvBlockTokens;
// Approximate items of a record when there are many rows: more would not balance better, and take time to
// plan.
constexpr uint64_t kItemsOfRecord = 8;
// Percentage by which a record's time may exceed the mean before keys are split: splits must be merged.
constexpr uint64_t kSlackPercent = 6;

// Neighbouring rows of one sequence in one item; every KV head has the same tiles.
struct Tile {
  uint32_t slot, first_row, rows;
  uint32_t tokens;       // tokens that its last row sees when the launch begins
  uint32_t last_leaves;  // leaves that its last row may see when the launch ends
};

uint64_t block_time(const AttentionPlanShape& shape, uint32_t rows) {
  return rows > rows_of_attention_tile(shape.group_heads) ? kBlockOfTwoTiles : kBlockOfOneTile;
}

// True for consecutive active rows of one slot with consecutive positions.
bool follows(const PassRow& before, const PassRow& row) {
  return row_is_active(before) && row_is_active(row) && before.slot == row.slot &&
         before.position + 1 == row.position;
}

uint64_t tiles_of_runs(std::span<const PassRow> rows, uint32_t most_rows) {
  uint64_t tiles = 0;
  for (uint32_t r = 0, in_tile = 0; r < rows.size(); ++r) {
    if (!row_is_active(rows[r])) continue;
    const bool joins = r > 0 && follows(rows[r - 1], rows[r]) && in_tile < most_rows;
    in_tile = joins ? in_tile + 1 : 1;
    tiles += joins ? 0 : 1;
  }
  return tiles;
}

// The unit of assignment to records: a tile's leaves from the first on, for some heads.
struct Chain {
  uint32_t tile;
  uint32_t first_head, heads;
  uint64_t time;
};

class Planner {
 public:
  Planner(const AttentionPlanShape& shape, std::span<const PassRow> rows,
          const std::function<uint32_t(const PassRow&)>& last_position, AttentionList& list)
      : shape_(shape), rows_(rows.first(shape.rows)), last_position_(last_position), list_(list) {}

  void run() {
    find_tiles();
    find_chains();
    for (uint32_t r = 0; r < shape_.records; ++r) loads_.push_back({0, r});
    list_.splits = list_.split_rows = 0;
    for (size_t c = 0; c < chains_.size();) c += assign(c);
    write_items();
  }

 private:
  struct Load {
    uint64_t time;
    uint32_t record;
    bool operator<(const Load& o) const { return time != o.time ? time < o.time : record < o.record; }
  };
  struct Assigned {
    uint32_t record;
    AttentionItem item;
  };

  // Tiles of two warpgroups' rows, or of one warpgroup's if that keeps more records busy.
  void find_tiles() {
    const uint32_t two = rows_of_attention_item(shape_.group_heads);
    const bool few = tiles_of_runs(rows_, two) * shape_.kv_heads < shape_.records;
    const uint32_t most_rows = few ? rows_of_attention_tile(shape_.group_heads) : two;
    for (uint32_t r = 0; r < rows_.size(); ++r) {
      if (!row_is_active(rows_[r])) continue;
      const bool joins = r > 0 && follows(rows_[r - 1], rows_[r]) && tiles_.back().rows < most_rows;
      if (!joins) tiles_.push_back({rows_[r].slot, r, 0, 0, 0});
      Tile& tile = tiles_.back();
      ++tile.rows;
      tile.tokens = rows_[r].position + 1;
      tile.last_leaves = std::max(tile.last_leaves, planned_leaves(last_position_(rows_[r]) + 1));
    }
  }

  uint64_t time_of(const Tile& tile, uint32_t first_leaf, uint32_t end_leaf) const {
    const uint32_t tokens = std::min<uint64_t>(tile.tokens, uint64_t{end_leaf} * kPlannedLeafTokens);
    const uint32_t blocks = blocks_for_tokens(tokens) - first_leaf * kLeafBlocksPlanned;
    return kItemBegins + blocks * block_time(shape_, tile.rows);
  }

  // Sorts chains by time, longest first. A tile's heads stay together if there are enough items.
  void find_chains() {
    const uint64_t wanted = std::clamp<uint64_t>(kItemsOfRecord * shape_.records, tiles_.size(),
                                                 std::max<size_t>(tiles_.size(), room() / 2));
    uint32_t heads = 1;
    while (tiles_.size() * ((shape_.kv_heads + heads - 1) / heads) > wanted) ++heads;
    for (uint32_t t = 0; t < tiles_.size(); ++t) {
      total_ += time_of(tiles_[t], 0, kToTheEnd) * shape_.kv_heads;
    }
    target_ = total_ / shape_.records;
    for (uint32_t t = 0; t < tiles_.size(); ++t) add_chains(t, heads);
    std::stable_sort(chains_.begin(), chains_.end(),
                     [](const Chain& a, const Chain& b) { return a.time > b.time; });
    waiting_ = chains_.size();
  }
  // Adds chains of `heads` heads, or of one head each if more would keep a record busy for long.
  void add_chains(uint32_t t, uint32_t heads) {
    constexpr uint64_t kLargestPart = 4;  // 1 / so much of a record's whole time
    const uint64_t time = time_of(tiles_[t], 0, kToTheEnd);
    const uint64_t others = (tiles_.size() - t) * ((shape_.kv_heads + heads - 1) / heads);
    const bool is_long = time * heads * kLargestPart > target_;
    if (is_long && chains_.size() + others + shape_.kv_heads <= room()) heads = 1;
    for (uint32_t h = 0; h < shape_.kv_heads; h += heads) {
      const uint32_t count = std::min(heads, shape_.kv_heads - h);
      chains_.push_back({t, h, count, time * count});
    }
  }

  uint32_t room() const { return attention_items(shape_.rows); }

  // Assigns the chains from `c` on; returns their number.
  size_t assign(size_t c) {
    const Chain& chain = chains_[c];
    --waiting_;
    const Tile& tile = tiles_[chain.tile];
    AttentionItem item{.slot = tile.slot,
                       .first_row = tile.first_row,
                       .rows = tile.rows,
                       .first_head = chain.first_head,
                       .heads = chain.heads};
    const uint32_t leaves = planned_leaves(tile.tokens);
    if (chain.heads == 1 && first_part(chain, tile, leaves) < leaves &&
        begin_split(item, tile, first_part(chain, tile, leaves))) {
      assign_split(item, tile, leaves);
      return 1;
    }
    const size_t together = chains_together(c);
    item.heads = chain.heads * static_cast<uint32_t>(together);
    waiting_ -= together - 1;
    add_item(item, chain.time * together);
    return together;
  }
  // Number of a tile's chains from `c` on for which the least busy record has time: they become one item,
  // whose rows and blocks are looked up once.
  size_t chains_together(size_t c) const {
    const Chain& first = chains_[c];
    size_t count = 1;
    const auto joins = [&](const Chain& next) {
      return next.tile == first.tile && next.heads == first.heads &&
             next.first_head == first.first_head + first.heads * count &&
             first.time * (count + 1) <= time_left(kSlackPercent);
    };
    while (c + count < chains_.size() && joins(chains_[c + count])) ++count;
    return count;
  }

  // Leaves for which the least busy record has time; all leaves if the whole chain does not exceed the mean
  // by much.
  uint32_t first_part(const Chain& chain, const Tile& tile, uint32_t leaves) const {
    return chain.time <= time_left(kSlackPercent) ? leaves : fitting(tile, 0, leaves);
  }
  uint64_t time_left(uint64_t percent) const {
    const uint64_t most = target_ + target_ * percent / 100;
    return most - std::min(most, loads_.front().time);
  }
  // End of the leaves from `first` on for which the least busy record has time, at least one.
  uint32_t fitting(const Tile& tile, uint32_t first, uint32_t leaves) const {
    const uint64_t leaf_time = kLeafBlocksPlanned * block_time(shape_, tile.rows);
    const uint64_t left = time_left(0), begins = std::min(left, kItemBegins);
    return static_cast<uint32_t>(std::min<uint64_t>(
        leaves, first + std::max<uint64_t>(1, (left - begins + leaf_time / 2) / leaf_time)));
  }

  // Reserves places for everything after the first `prefix` leaves. Returns false if there are too few.
  bool begin_split(AttentionItem& item, const Tile& tile, uint32_t prefix) {
    const uint32_t row_places = 1 + tile.last_leaves - prefix;
    const uint64_t places = uint64_t{tile.rows} * row_places;
    const bool fits = list_.splits < kMostAttentionSplits && places <= shape_.places - places_used_ &&
                      assigned_.size() + waiting_ + 1 + planned_leaves(tile.tokens) <= room();
    if (!fits) return false;
    list_.split[list_.splits++] = {.first_row = tile.first_row,
                                   .rows = tile.rows,
                                   .head = item.first_head,
                                   .prefix_leaves = prefix,
                                   .first_place = places_used_,
                                   .row_places = row_places,
                                   .rows_before = list_.split_rows};
    list_.split_rows += tile.rows;
    item.row_places = row_places;
    places_used_ += static_cast<uint32_t>(places);
    return true;
  }

  void assign_split(AttentionItem item, const Tile& tile, uint32_t leaves) {
    const AttentionSplit split = list_.split[list_.splits - 1];
    for (uint32_t first = 0; first < leaves; first = item.end_leaf) {
      const uint32_t end = first == 0 ? split.prefix_leaves : fitting(tile, first, leaves);
      item.first_leaf = first;
      item.first_place = split.first_place + (first == 0 ? 0 : 1 + first - split.prefix_leaves);
      item.end_leaf = end < leaves ? end : tile.last_leaves;  // the row may grow into the next leaf
      add_item(item, time_of(tile, first, end));
    }
  }

  void add_item(const AttentionItem& item, uint64_t time) {
    Load& least = loads_.front();
    assigned_.push_back({least.record, item});
    least.time += time;
    sift_down();
  }

  // Restores the heap after its first load has grown.
  void sift_down() {
    const Load load = loads_.front();
    size_t at = 0;
    for (size_t child = 1; child < loads_.size(); child = 2 * at + 1) {
      if (child + 1 < loads_.size() && loads_[child + 1] < loads_[child]) ++child;
      if (!(loads_[child] < load)) break;
      loads_[at] = loads_[child];
      at = child;
    }
    loads_[at] = load;
  }

  void write_items() {
    list_.records = shape_.records;
    list_.items = static_cast<uint32_t>(assigned_.size());
    std::fill_n(list_.begin, shape_.records + 1, 0);
    for (const Assigned& d : assigned_) ++list_.begin[d.record + 1];
    for (uint32_t r = 0; r < shape_.records; ++r) list_.begin[r + 1] += list_.begin[r];
    std::vector<uint32_t> next(list_.begin, list_.begin + shape_.records);
    for (const Assigned& d : assigned_) list_.item()[next[d.record]++] = d.item;
  }

  const AttentionPlanShape& shape_;
  const std::span<const PassRow> rows_;
  const std::function<uint32_t(const PassRow&)>& last_position_;
  AttentionList& list_;
  std::vector<Tile> tiles_;
  std::vector<Chain> chains_;
  std::vector<Assigned> assigned_;
  std::vector<Load> loads_;  // a heap: the least busy record comes first
  uint64_t total_ = 0, target_ = 0;
  size_t waiting_ = 0;  // chains that have not been assigned
  uint32_t places_used_ = 0;
};

}  // namespace

void plan_attention(const AttentionPlanShape& shape, std::span<const PassRow> rows,
                    const std::function<uint32_t(const PassRow&)>& last_position, AttentionList& list) {
  Planner(shape, rows, last_position, list).run();
}

uint64_t predicted_time(const AttentionPlanShape& shape, std::span<const PassRow> rows,
                        const AttentionItem& item) {
  uint32_t tokens = 0;
  for (const PassRow& row : rows.subspan(item.first_row, item.rows))
    tokens = std::max(tokens, row_is_active(row) ? row.position + 1 : 0);
  tokens = static_cast<uint32_t>(std::min<uint64_t>(tokens, uint64_t{item.end_leaf} * kPlannedLeafTokens));
  const uint32_t blocks = blocks_for_tokens(tokens), skipped = item.first_leaf * kLeafBlocksPlanned;
  if (blocks <= skipped) return 0;
  return item.heads * (kItemBegins + (blocks - skipped) * block_time(shape, item.rows));
}

}  // namespace serval
