#include "models/presets.h"

#include "models/architectures.h"
#include "models/preset_texts.h"

namespace serval {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetText& preset : preset_texts()) names.emplace_back(preset.name);
  return names;
}

std::shared_ptr<const Model> find_preset(std::string_view name) {
  for (const PresetText& preset : preset_texts())
    if (preset.name == name) return parse_model(preset.json, std::string(name));
  return nullptr;
}

}  // namespace serval
