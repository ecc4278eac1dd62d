// The configurations of configs/*.json, embedded in the library, so that the installed program needs no
// files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/config.h"

namespace serval {

// In alphabetical order.
std::vector<std::string> preset_names();

std::optional<LlamaConfig> find_preset(std::string_view name);

}  // namespace serval
