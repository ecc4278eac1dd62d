#include "vm/state_check.h"

#include <algorithm>
#include <fmt/format.h>

#include "vm/error.h"
#include "vm/kv_cache.h"

namespace serval {
namespace {

void limit(int row, const char* field, int64_t found, int64_t bound) {
  if (found < 0 || found >= bound) {
    throw Error(ErrorKind::kUsage,
                fmt::format("state: row {}: {}: {}, limit {}", row, field, found, bound - 1));
  }
}

// The last position that the row may have before the launch ends.
uint32_t last_position(const StateBlock& state, const PassRow& row) {
  const uint32_t end = state.slots[row.slot].end_position;
  if (row.wants_logits == 0 || end <= row.position) return row.position;
  return row.position + std::min(state.control.passes_wanted, end - row.position) - 1;
}

void check_blocks(const Program& program, const StateBlock& state, int r,
                  std::span<const int32_t> block_table) {
  const PassRow& row = state.rows[r];
  const size_t per_sequence = block_table.size() / kMaxSlots;
  for (uint32_t block = 0; block <= last_position(state, row) / kKvBlockTokens; ++block) {
    limit(r, "KV block", block_table[row.slot * per_sequence + block], program.limits.kv_blocks);
  }
}

}  // namespace

void check_state(const Program& program, const StateBlock& state, std::span<const int32_t> block_table) {
  const uint32_t passes = state.control.passes_wanted;
  if (passes < 1 || passes > kMaxLaunchPasses) {
    throw Error(ErrorKind::kUsage, fmt::format("state: passes: {}, limit 1 to {}", passes, kMaxLaunchPasses));
  }
  if (block_table.size() != size_t{kMaxSlots} * blocks_for_tokens(program.limits.max_context)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("state: block table: {} entries, expected {}", block_table.size(),
                            kMaxSlots * blocks_for_tokens(program.limits.max_context)));
  }
  for (int r = 0; r < kMaxRows; ++r) {
    const PassRow& row = state.rows[r];
    if (row.active == 0) continue;
    limit(r, "slot", row.slot, kMaxSlots);
    limit(r, "token", row.token, program.limits.vocab);
    limit(r, "position", row.position, program.limits.max_context);
    limit(r, "end_position", state.slots[row.slot].end_position, int64_t{program.limits.max_context} + 1);
    limit(r, "num_stop_tokens", state.slots[row.slot].num_stop_tokens, kMaxStopTokens + 1);
    check_blocks(program, state, r, block_table);
    for (int other = 0; other < r; ++other) {
      const PassRow& o = state.rows[other];
      if (o.active != 0 && o.slot == row.slot && o.position == row.position) {
        throw Error(ErrorKind::kUsage, fmt::format("state: rows {} and {}: same slot {} and position {}",
                                                   other, r, row.slot, row.position));
      }
    }
  }
}

}  // namespace serval
