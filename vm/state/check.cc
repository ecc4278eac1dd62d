#include "vm/state/check.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>
#include <vector>

#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"

namespace serval {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUsage, "state: " + what);
}

void limit(uint32_t row, const char* field, int64_t found, int64_t bound) {
  if (found < 0 || found >= bound)
    refuse(fmt::format("row {}: {}: {}, limit {}", row, field, found, bound - 1));
}

// Several programs may share the block: it has as many rows as the largest of them.
void check_room(const StateLimits& program, const StateBlock& state) {
  const uint32_t blocks = blocks_for_tokens(program.max_context);
  if (state.limits.rows < program.rows)
    refuse(fmt::format("{} rows, the program has {}", state.limits.rows, program.rows));
  if (state.limits.sequences != program.sequences)
    refuse(fmt::format("{} sequences, the program has {}", state.limits.sequences, program.sequences));
  if (state.layout.blocks_per_sequence != blocks) {
    refuse(fmt::format("block table: {} blocks of a sequence, the program has {}",
                       state.layout.blocks_per_sequence, blocks));
  }
}

// The last position that the row may have before the launch ends.
uint32_t last_position(const StateBlock& state, const PassRow& row) {
  const uint32_t end = state.slots[row.slot].end_position;
  if (row.wants_logits == 0 || end <= row.position) return row.position;
  return row.position + std::min(state.control.passes_wanted, end - row.position) - 1;
}

void check_row(const StateLimits& limits, const StateBlock& state, uint32_t r) {
  const PassRow& row = state.rows[r];
  limit(r, "slot", row.slot, limits.sequences);
  limit(r, "token", row.token, limits.vocab);
  limit(r, "position", row.position, limits.max_context);
  limit(r, "end_position", state.slots[row.slot].end_position, int64_t{limits.max_context} + 1);
  limit(r, "num_stop_tokens", state.slots[row.slot].num_stop_tokens, kMaxStopTokens + 1);
  const std::span<const int32_t> blocks = state.blocks_of(row.slot);
  for (uint32_t block = 0; block <= last_position(state, row) / kKvBlockTokens; ++block) {
    limit(r, "KV block", blocks[block], limits.kv_blocks);
  }
}

// What two rows may not share, and the row that has it.
struct RowPosition {
  uint32_t slot, position, row;
};

void check_positions(std::vector<RowPosition> positions) {
  std::ranges::sort(positions, {}, [](const RowPosition& p) { return std::tie(p.slot, p.position, p.row); });
  const auto same = std::ranges::adjacent_find(positions, [](const RowPosition& a, const RowPosition& b) {
    return a.slot == b.slot && a.position == b.position;
  });
  if (same == positions.end()) return;
  refuse(fmt::format("rows {} and {}: same slot {} and position {}", same->row, (same + 1)->row, same->slot,
                     same->position));
}

}  // namespace

void check_state(const Program& program, const StateBlock& state) {
  const StateLimits& limits = program.limits;
  check_room(limits, state);
  const uint32_t passes = state.control.passes_wanted, most = launch_passes(limits.rows);
  if (passes < 1 || passes > most) refuse(fmt::format("passes: {}, limit 1 to {}", passes, most));
  std::vector<RowPosition> positions;
  positions.reserve(limits.rows);
  for (uint32_t r = 0; r < state.rows.size(); ++r) {
    const PassRow& row = state.rows[r];
    if (!row_is_active(row)) continue;
    if (r >= limits.rows) refuse(fmt::format("row {}: active, the program has {} rows", r, limits.rows));
    check_row(limits, state, r);
    positions.push_back({row.slot, row.position, r});
  }
  check_positions(std::move(positions));
}

}  // namespace serval
