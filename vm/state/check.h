// The state block is checked before every launch: everything that it names must exist in the program that
// reads it.
#pragma once

#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Throws Error(kUsage), naming the row and field, unless
// - the block has room for the program (as many rows, the same sequences and blocks of a sequence);
// - only rows of the program are active, and only the first logit_rows() want logits;
// - 1 <= passes_wanted <= launch_passes() of its rows;
// - a row has a target only if it wants logits, in a launch of one pass, and the target is in the vocabulary;
// - a row adds its hidden state only if it wants logits and the program pools;
// - for every active row, slot, token and position are within the program's limits, the blocks up to the last
//   position that it may reach in this launch exist, its slot's end_position <= max_context, the slot's
//   extras are consistent (SlotExtra) and within their limits, and no other row has the same slot and
//   position, or the same position in the KV cache;
// - drafts are as many as their slot allows, of a row that draws, and in a program that plans no attention;
//   their rows follow that row, with its slot and the next positions; the slot keeps its history, has neither
//   penalties nor a mask, and lists no likeliest tokens;
// - the list of attention items is right (check_attention.h).
//
// Takes rows × log(rows), and blocks.
void check_state(const Program& program, const StateBlock& state);

// Checks only the tokens of active rows, in a state that was checked before they were filled in.
void check_tokens(const Program& program, const StateBlock& state);

}  // namespace serval
