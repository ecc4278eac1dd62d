// The list of attention's work is checked with the state that it belongs to.
#pragma once

#include "vm/program.h"
#include "vm/state/block.h"

namespace serval {

// Throws Error(kUsage) naming the item or split unless, where the program has the list among its tensors: the
// list is for the program's SMs; items name active rows of one slot and KV heads of the program; each active
// row, head and leaf is in exactly one item; and where several items have a row and head, a split has places
// for them that no other split has, up to the last leaf that the row may see in this launch. Rows have been
// checked. Takes items × log(items), and rows × heads.
void check_attention(const Program& program, const StateBlock& state);

// The last position that an active row may have before the launch ends.
uint32_t last_position(const StateBlock& state, const PassRow& row);

}  // namespace serval
