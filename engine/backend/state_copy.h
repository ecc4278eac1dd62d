// For backends that run a launch in host memory: they do so on a state block of their own, so that the one
// that callers write belongs to the next launch meanwhile (Backend::run).
#pragma once

#include "vm/state/block.h"

namespace serval {

// What the launch that `from` describes reads of it: rows, control, the list of attention, and of the slots
// of active rows all there is but for their masks, which the program reads in `from`. Both have the same
// limits, and check_state() has accepted `from`.
void copy_launch(const StateBlock& from, StateBlock& to);

// What a launch leaves beside output and top: rows, control, and the slots of rows that were active in `to`.
void copy_result(const StateBlock& from, StateBlock& to);

}  // namespace serval
