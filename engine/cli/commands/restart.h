// A process that begins again.
#pragma once

#include <string>

#include "engine/cli/flags/arguments.h"

namespace serval::cli {

// Replaces what this process runs by the same executable with these arguments, of which the first is the
// command. The process keeps its number, its environment and its standard streams; all else is closed, a
// GPU's context with it. Call it when nothing is left to clean up: no destructor runs. Throws
// Error(kDeviceFault) where the system refuses.
[[noreturn]] void restart(const Arguments& arguments);

}  // namespace serval::cli
