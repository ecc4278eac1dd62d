// The arguments after the name of a command on the command line.
#pragma once

#include <string>
#include <vector>

namespace serval::cli {

using Arguments = std::vector<std::string>;

}  // namespace serval::cli
