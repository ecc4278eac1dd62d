// The host's plan of a launch's attention: assigns what the active rows see to the records, by predicted
// time, longest first (vm/state/attention.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "vm/state/attention.h"
#include "vm/state/rows.h"

namespace serval {

struct AttentionPlanShape {
  uint32_t group_heads = 1;  // query heads of a KV head, 1 to 64
  uint32_t kv_heads = 1;
  uint32_t records = 1;  // the machine's SMs
  uint32_t places = kAttentionPlaces;
  // The program's rows; the list has room for attention_items(rows) items.
  uint32_t rows = 1;
};

// Rows of a pass in a warpgroup's tile on the tensor cores, and largest number in an item (two tiles).
constexpr uint32_t rows_of_attention_tile(uint32_t group_heads) {
  return 64 / group_heads;
}
constexpr uint32_t rows_of_attention_item(uint32_t group_heads) {
  return 2 * rows_of_attention_tile(group_heads);
}

// Writes the list: every active row, KV head and leaf is in exactly one item, and splits have places up to
// `last_position(row)`, the last position that an active row may reach in the launch. `rows`: shape.rows rows
// that satisfy check_state() (vm/state/check.h). Takes about 100 ns for each row of a pass and KV head.
// Thread-safe.
void plan_attention(const AttentionPlanShape& shape, std::span<const PassRow> rows,
                    const std::function<uint32_t(const PassRow&)>& last_position, AttentionList& list);

// Predicted time of an item, in tenths of the time of a block with one tile.
uint64_t predicted_time(const AttentionPlanShape& shape, std::span<const PassRow> rows,
                        const AttentionItem& item);

}  // namespace serval
