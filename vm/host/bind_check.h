// Checks of both host interpreters before they run a program.
#pragma once

#include <vector>

#include "vm/host/handler.h"
#include "vm/host/memory.h"
#include "vm/program.h"
#include "vm/state/control.h"

namespace serval {

// Throws Error(kRuntime) if the structure or a record is invalid, or a tensor is not bound. Returns each
// device's PassControl.
std::vector<PassControl*> check_binding(const Program& program, const HostIsa& isa, const HostMemory& memory);

}  // namespace serval
