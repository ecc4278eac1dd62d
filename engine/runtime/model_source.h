// Finds a model's files.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engine/include/serval/engine.h"
#include "models/model.h"
#include "models/model_files.h"
#include "models/pooling.h"

namespace serval {

struct ModelSource {
  std::shared_ptr<const Model> model;         // never null
  std::shared_ptr<const ModelFiles> files;    // null for a preset
  std::string notice = {};                    // ChosenFormats::notice
  std::optional<PoolingConfig> pooling = {};  // for embeddings; the model then pools
};

// `model` is a directory, a GGUF file, a preset's name or, as "org/name", a model in Hugging Face's cache;
// empty for the bundled model. Reads only the configuration. If there is no such model, throws
// Error(kRuntime) with the places that were searched.
ModelSource find_model(const std::string& model);

// The model that the options name, to generate or for embeddings, with the types of weights that
// choose_formats() chooses. Throws as this and as above, and as ModelFiles::pooling().
ModelSource find_model(const EngineOptions& options);

// The bundled model: $SERVAL_ASSETS/serval-stories if the variable is set, else share/serval/serval-stories
// next to the executable's directory or in the installation prefix, else the source tree's.
std::filesystem::path bundled_model_directory();

}  // namespace serval
