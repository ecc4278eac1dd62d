// The state block is checked before every launch: what it names must exist in the program that reads it.
#pragma once

#include <cstdint>
#include <span>

#include "vm/program.h"
#include "vm/state.h"

namespace serval {

// Throws Error(kUsage) naming the row and field unless, for every active row: slot, token and position are
// within the program's limits, the blocks up to the last position that it may reach in this launch exist,
// no other row has the same slot and position, and 1 <= passes_wanted <= kMaxLaunchPasses, every slot's
// end_position <= max_context.
void check_state(const Program& program, const StateBlock& state, std::span<const int32_t> block_table);

}  // namespace serval
