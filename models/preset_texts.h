// The text of every preset. CMake generates the definition from configs/*.json.
#pragma once

#include <span>
#include <string_view>

namespace serval {

struct PresetText {
  std::string_view name;  // file name without .json
  std::string_view json;
};

std::span<const PresetText> preset_texts();

}  // namespace serval
