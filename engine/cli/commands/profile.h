// The parts of serval profile.
#pragma once

#include "engine/cli/commands/commands.h"

namespace serval::cli {

// serval profile diff. Takes the arguments after "diff".
int run_profile_diff(const Arguments& arguments);

}  // namespace serval::cli
