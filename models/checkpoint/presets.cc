#include "models/checkpoint/presets.h"

#include "models/checkpoint/preset_texts.h"

namespace serval {

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetText& preset : preset_texts()) names.emplace_back(preset.name);
  return names;
}

std::optional<LlamaConfig> find_preset(std::string_view name) {
  for (const PresetText& preset : preset_texts())
    if (preset.name == name) return parse_config(preset.json, std::string(name));
  return std::nullopt;
}

}  // namespace serval
