// From a config.json to a model, by its "model_type" and "architectures".
//
// Everything read is checked against ConfigLimits before it is used. The functions throw
// serval::Error(kRuntime) with one line that names the file and the field.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "models/model.h"

namespace serval {

// The model of a directory, called as it: config.json and, where there is one, generation_config.json, whose
// token ids win. Of weights, only an LM head beside a tied embedding is looked at.
std::shared_ptr<const Model> read_model(const std::filesystem::path& model_dir);

// The text of a config.json; `name` becomes the model's name and the start of error lines.
std::shared_ptr<const Model> parse_model(std::string_view json_text, const std::string& name);

// The same, parsed, for a model called `name`; `source` starts error lines.
std::shared_ptr<const Model> parse_model_tree(const nlohmann::json& config, const std::string& source,
                                              const std::string& name);

}  // namespace serval
