// The state block is checked before every launch: what it names must exist in the program that reads it.
#pragma once

#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Throws Error(kUsage) naming the row and field unless the block has room for the program (as many rows, the
// same sequences and blocks of a sequence), only rows of the program are active, only the first
// logit_rows() want logits, 1 <= passes_wanted <=
// launch_passes() of its rows, and for every active row: slot, token and position are within the program's
// limits, the blocks up to the last position that it may reach in this launch exist, its slot's end_position
// <= max_context, what it asks for is consistent (SlotExtra) and within its limits, and no other row has the
// same slot and position, or the same place in the KV cache; and the list of attention's work is right
// (check_attention.h). Takes rows × log(rows), and blocks.
void check_state(const Program& program, const StateBlock& state);

// The same for no more than the tokens of active rows: of a state that was checked before it got them.
void check_tokens(const Program& program, const StateBlock& state);

}  // namespace serval
