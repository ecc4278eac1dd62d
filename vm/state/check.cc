#include "vm/state/check.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "vm/base/error.h"
#include "vm/layout/kv_cache.h"
#include "vm/state/check_attention.h"
#include "vm/state/names.h"

namespace serval {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kUsage, "state: " + what);
}

void limit(uint32_t row, const char* field, int64_t found, int64_t bound) {
  if (found < 0 || found >= bound)
    refuse(fmt::format("row {}: {}: {}; limit: {}", row, field, found, bound - 1));
}

// Several programs may share the block: it has at least as many rows as each of them.
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

void check_extras(const StateBlock& state, uint32_t r) {
  const SequenceSlot& slot = state.slots[state.rows[r].slot];
  if (slot.extras != extras_of(slot))
    refuse(fmt::format("row {}: extras: {}, expected {} for its slot", r, slot.extras, extras_of(slot)));
  if (slot.extras == 0) return;
  limit(r, "num_biases", slot.num_biases, kMaxLogitBiases + 1);
  limit(r, "num_top", slot.num_top, kMaxTopTokens + 1);
  if ((slot.extras & kKeepsHistory) != 0)
    limit(r, "history_length", slot.history_length, int64_t{state.limits.max_context} + 1);
  if ((slot.extras & kListsTop) != 0 && state.control.passes_wanted != 1)
    refuse(fmt::format("row {}: lists the likeliest tokens; {} passes; limit: 1", r,
                       state.control.passes_wanted));
}

void check_target(const StateLimits& limits, const StateBlock& state, uint32_t r) {
  const PassRow& row = state.rows[r];
  if (!row_has_target(row)) return;
  limit(r, "target", row.target, limits.vocab);
  if (row.wants_logits == 0) refuse(fmt::format("row {}: has a target and wants no logits", r));
  if (state.control.passes_wanted != 1)
    refuse(fmt::format("row {}: has a target; {} passes; limit: 1", r, state.control.passes_wanted));
}

// A draft row has the slot and the position that its place after the sequence's first row gives it.
void check_draft(const StateBlock& state, uint32_t first, uint32_t r) {
  const PassRow& row = state.rows[r];
  if (!row_is_active(row)) return;
  const uint32_t position = state.rows[first].position + (r - first);
  if (row.slot != state.rows[first].slot || row.position != position || row.wants_logits == 0 ||
      row.drafts != 0) {
    refuse(fmt::format(
        "row {}: slot {}, position {}, wants_logits {}, drafts {}; expected {}, {}, 1, 0: a "
        "draft of row {}",
        r, row.slot, row.position, row.wants_logits, row.drafts, state.rows[first].slot, position, first));
  }
}

void check_drafts(const Program& program, const StateBlock& state, uint32_t r) {
  const PassRow& row = state.rows[r];
  if (row.drafts == 0) return;
  const StateLimits& limits = program.limits;
  const SequenceSlot& slot = state.slots[row.slot];
  // The host writes the drafts of a slot whose rule makes none.
  const uint32_t most = slot.drafts.most > 0 ? slot.drafts.most : kMaxDrafts;
  limit(r, "drafts", row.drafts, int64_t{std::min(kMaxDrafts, most)} + 1);
  limit(r, "drafts", row.drafts, int64_t{logit_rows(limits)} - r);
  if (program.find_tensor(state_tensor::kAttention))
    refuse(fmt::format("row {}: {} drafts; a program that plans attention takes none", r, row.drafts));
  if (row.wants_logits == 0 || row_has_target(row))
    refuse(fmt::format("row {}: has drafts and draws no token", r));
  if ((slot.extras & (kListsTop | kMasksTokens)) != 0 || has_penalties(slot)) {
    refuse(fmt::format(
        "row {}: drafts; a slot with penalties, a mask or a list of likeliest tokens takes none", r));
  }
  for (uint32_t draft = r + 1; draft <= r + row.drafts; ++draft) check_draft(state, r, draft);
}

void check_adds(const StateLimits& limits, const PassRow& row, uint32_t r) {
  limit(r, "adds", row.adds, 2);
  if (row.adds == 0) return;
  if (limits.pooled_cols == 0) refuse(fmt::format("row {}: adds its hidden state; the program generates", r));
  if (row.wants_logits == 0) refuse(fmt::format("row {}: adds its hidden state and wants no logits", r));
}

// `checked`: number of the slot's first blocks that an earlier row has checked.
void check_row(const Program& program, const StateBlock& state, uint32_t r, uint32_t& checked) {
  const StateLimits& limits = program.limits;
  const PassRow& row = state.rows[r];
  limit(r, "slot", row.slot, limits.sequences);
  limit(r, "token", row.token, limits.vocab);
  limit(r, "position", row.position, limits.max_context);
  limit(r, "end_position", state.slots[row.slot].end_position, int64_t{limits.max_context} + 1);
  limit(r, "num_stop_tokens", state.slots[row.slot].num_stop_tokens, kMaxStopTokens + 1);
  check_extras(state, r);
  check_target(limits, state, r);
  check_drafts(program, state, r);
  check_adds(limits, row, r);
  const std::span<const int32_t> blocks = state.blocks_of(row.slot);
  if (row.wants_logits != 0 && r >= logit_rows(limits))
    refuse(fmt::format("row {}: wants logits; only the first {} rows may", r, logit_rows(limits)));
  for (; checked <= last_position(state, row) / kKvBlockTokens; ++checked)
    limit(r, "KV block", blocks[checked], limits.kv_blocks);
}

// Keys that must be unique among the rows: a token of a sequence, and its position in the KV cache.
struct RowKey {
  uint64_t token;  // slot and position
  uint64_t place;  // KV block and token in it
  uint32_t row;
};

template <auto Member>
const RowKey* find_same(std::vector<RowKey>& keys) {
  const auto value = [](const RowKey& key) { return std::pair(key.*Member, key.row); };
  std::ranges::sort(keys, {}, value);
  const auto same = std::ranges::adjacent_find(keys, {}, Member);
  return same == keys.end() ? nullptr : &*same;
}

void refuse_same(const StateBlock& state, std::vector<RowKey> keys) {
  if (const RowKey* same = find_same<&RowKey::token>(keys)) {
    const PassRow& row = state.rows[same->row];
    refuse(fmt::format("rows {} and {}: same slot {} and position {}", same->row, same[1].row, row.slot,
                       row.position));
  }
  if (const RowKey* same = find_same<&RowKey::place>(keys)) {
    refuse(fmt::format("rows {} and {}: same token {} of KV block {}", same->row, same[1].row,
                       same->place % kKvBlockTokens, same->place / kKvBlockTokens));
  }
}

// Positions of the KV cache that rows write: for each such block, one bit for each of its tokens.
class Places {
 public:
  explicit Places(size_t rows) : blocks_(std::bit_ceil(2 * rows + 1), kNoBlock), tokens_(blocks_.size(), 0) {}

  // Returns false if the position is taken.
  bool take(uint64_t block, uint32_t token) {
    if (blocks_[at_] != block) find(block);
    const uint64_t bit = uint64_t{1} << token;
    const bool is_free = (tokens_[at_] & bit) == 0;
    tokens_[at_] |= bit;
    return is_free;
  }

 private:
  static constexpr uint64_t kNoBlock = ~uint64_t{0};
  static_assert(kKvBlockTokens == std::numeric_limits<uint64_t>::digits);

  void find(uint64_t block) {
    const size_t mask = blocks_.size() - 1;
    at_ = block & mask;
    while (blocks_[at_] != block && blocks_[at_] != kNoBlock) at_ = (at_ + 1) & mask;
    blocks_[at_] = block;
  }

  std::vector<uint64_t> blocks_, tokens_;
  size_t at_ = 0;  // index of the last block
};

// Rows with the same token also have the same position in the KV cache. Which rows these are is searched for
// only if there are any.
bool are_apart(std::span<const RowKey> keys) {
  Places places(keys.size());
  return std::ranges::all_of(keys, [&](const RowKey& key) {
    return places.take(key.place / kKvBlockTokens, key.place % kKvBlockTokens);
  });
}

}  // namespace

void check_tokens(const Program& program, const StateBlock& state) {
  for (uint32_t r = 0; r < program.limits.rows; ++r) {
    const PassRow& row = state.rows[r];
    if (!row_is_active(row)) continue;
    limit(r, "token", row.token, program.limits.vocab);
  }
}

void check_state(const Program& program, const StateBlock& state) {
  const StateLimits& limits = program.limits;
  check_room(limits, state);
  const uint32_t passes = state.control.passes_wanted, most = launch_passes(limits.rows);
  if (passes < 1 || passes > most) refuse(fmt::format("passes: {}; limit: 1 to {}", passes, most));
  std::vector<RowKey> keys;
  keys.reserve(limits.rows);
  uint32_t checked = 0;  // blocks of the previous row's slot that are checked
  for (uint32_t r = 0; r < state.rows.size(); ++r) {
    const PassRow& row = state.rows[r];
    if (!row_is_active(row)) continue;
    if (r >= limits.rows) refuse(fmt::format("row {}: active, the program has {} rows", r, limits.rows));
    if (keys.empty() || state.rows[keys.back().row].slot != row.slot) checked = 0;
    check_row(program, state, r, checked);
    const auto block = static_cast<uint64_t>(state.blocks_of(row.slot)[row.position / kKvBlockTokens]);
    keys.push_back(
        {uint64_t{row.slot} << 32 | row.position, block * kKvBlockTokens + row.position % kKvBlockTokens, r});
  }
  if (!are_apart(keys)) refuse_same(state, std::move(keys));
  check_attention(program, state);
}

}  // namespace serval
