// The configurations in configs/*.json. They are embedded in the library, so that the installed program needs
// no files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace serval {

// Sorted.
std::vector<std::string> preset_names();

// Null if no preset has that name.
std::shared_ptr<const Model> find_preset(std::string_view name);

}  // namespace serval
