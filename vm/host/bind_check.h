// What both host interpreters ask of a program and its memory before they run it.
#pragma once

#include <vector>

#include "vm/host/handler.h"
#include "vm/host/memory.h"
#include "vm/program.h"
#include "vm/state/control.h"

namespace serval {

// Throws Error(kRuntime) if the structure or a record does not check, or a tensor is not bound. Returns where
// the pass's control lies on each device.
std::vector<PassControl*> check_binding(const Program& program, const HostIsa& isa, const HostMemory& memory);

}  // namespace serval
