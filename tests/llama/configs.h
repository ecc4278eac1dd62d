// Configurations of the Llama family from files and presets, for tests that change or compute with them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "models/architectures.h"
#include "models/llama/config.h"
#include "models/presets.h"

namespace serval {

// Throws if the model is not of the Llama family.
inline LlamaConfig llama_config(const Model& model) {
  return dynamic_cast<const LlamaConfig&>(model);
}
inline LlamaConfig parse_config(std::string_view json_text, const std::string& name) {
  return llama_config(*parse_model(json_text, name));
}
inline LlamaConfig load_config(const std::filesystem::path& directory) {
  return llama_config(*read_model(directory));
}
inline LlamaConfig preset_config(std::string_view name) {
  return llama_config(*find_preset(name));
}

}  // namespace serval
