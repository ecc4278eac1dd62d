// Checks the list of attention items together with its state block.
#pragma once

#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// If the program has the list among its tensors, throws Error(kUsage), naming the item or split, unless
// - the list is for the program's SMs;
// - items name active rows of one slot and KV heads of the program;
// - each active row, head and leaf is in exactly one item;
// - where several items have a row and head, a split has places for them that no other split has, up to the
//   last leaf that the row may see in this launch.
//
// Rows must have been checked before. Takes items × log(items), and rows × heads.
void check_attention(const Program& program, const StateBlock& state);

// The last position that an active row may have in this launch.
uint32_t last_position(const StateBlock& state, const PassRow& row);

}  // namespace serval
