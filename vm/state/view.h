// Inputs of an exact footprint.
#pragma once

#include <cstdint>

#include "vm/state/attention.h"
#include "vm/state/rows.h"

namespace serval {

// View of a state within the program's limits. A null StateView* asks for a bound over all states.
struct StateView {
  const PassRow* rows;         // [rows of the program]
  const int32_t* block_table;  // [sequences of the program][blocks_per_sequence]
  uint32_t blocks_per_sequence;
  const AttentionList* attention = nullptr;  // of programs with planned attention
};

}  // namespace serval
