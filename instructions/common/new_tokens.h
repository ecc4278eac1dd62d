// Writes of K and V of the pass's rows into the columns (tokens) of their KV blocks.
#pragma once

#include <cstdint>

#include "instructions/common/footprint.h"
#include "vm/layout/kv_cache.h"

namespace serval {

// Writes channels [begin, end) of a cache, for the tokens of the instance's rows. Without a state, these may
// be any tokens, but different rows have different tokens: the columns are divided among the pass's rows
// (Part::kNewTokens).
template <auto Member, class Op>
void write_new_tokens(const Op& op, const StateView* state, FootprintBuilder<Op>& f, uint64_t begin,
                      uint64_t end) {
  const RowRange rows = row_range(op, f.shape());
  if (state == nullptr) {
    const StateLimits& limits = f.shape().limits;
    const uint64_t tokens = uint64_t{limits.kv_blocks} * kKvBlockTokens;
    f.template write<Member>({begin, end, tokens * rows.begin / limits.rows, tokens * rows.end / limits.rows},
                             Part::kNewTokens);
    return;
  }
  for (uint32_t r = rows.begin; r < rows.end; ++r) {
    const PassRow& row = state->rows[r];
    if (!row_is_active(row)) continue;
    const uint64_t entry = uint64_t{row.slot} * state->blocks_per_sequence + row.position / kKvBlockTokens;
    const uint64_t token =
        static_cast<uint64_t>(state->block_table[entry]) * kKvBlockTokens + row.position % kKvBlockTokens;
    f.template write<Member>({begin, end, token, token + 1});
  }
}

}  // namespace serval
