// For backends that run a launch in host memory. They run on a copy of the state block, so that callers can
// write the original for the next launch meanwhile (Backend::run).
#pragma once

#include "vm/state/block.h"

namespace serval {

// Copies what the launch described by `from` reads: rows, control, the list of attention, and for the slots
// of active rows everything except masks, which the program reads in `from`. Both blocks have the same
// limits, and check_state() has accepted `from`.
void copy_launch(const StateBlock& from, StateBlock& to);

// Copies the results of a launch other than output and top: rows, control, and the slots of rows that were
// active in `to`.
void copy_result(const StateBlock& from, StateBlock& to);

}  // namespace serval
