// Reads a config.json into a Model. Its "model_type" and "architectures" choose the architecture.
//
// Every value is checked against ConfigLimits before it is used. The functions throw
// serval::Error(kRuntime) with one line that names the file and the field.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "models/model.h"

namespace serval {

// Reads config.json and, if it exists, generation_config.json, whose token ids replace those of config.json.
// The model gets the directory's name. Reads no weights, except to compare a stored LM head with a tied
// embedding (models/checkpoint/tied_weights.h).
std::shared_ptr<const Model> read_model(const std::filesystem::path& model_dir);

// Parses the text of a config.json. Error lines start with `name`, which is also the model's name.
std::shared_ptr<const Model> parse_model(std::string_view json_text, const std::string& name);

// As parse_model(), for a parsed config.json. Error lines start with `source`.
std::shared_ptr<const Model> parse_model_tree(const nlohmann::json& config, const std::string& source,
                                              const std::string& name);

}  // namespace serval
