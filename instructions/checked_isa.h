#pragma once

#include "vm/host/checked.h"

namespace serval {

// The instruction set of the host interpreter's `checked` mode. Thread-safe.
const CheckedIsa& checked_isa();

}  // namespace serval
