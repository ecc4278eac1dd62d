// Restarts the process.
#pragma once

#include <string>

#include "engine/cli/flags/arguments.h"

namespace serval::cli {

// Replaces this process's image by the same executable with these arguments; the first is the command. The
// process keeps its id, its environment and its standard streams; all other files are closed, and a GPU's
// context with them. Call it when nothing is left to clean up: no destructor runs. Throws Error(kDeviceFault)
// if the system refuses.
[[noreturn]] void restart(const Arguments& arguments);

}  // namespace serval::cli
