// Where a model's files are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/model.h"
#include "models/model_files.h"

namespace serval {

struct ModelSource {
  std::shared_ptr<const Model> model;       // never null
  std::shared_ptr<const ModelFiles> files;  // null for a preset
};

// `model` is a directory, a GGUF file, a preset's name or, as "org/name", a model in Hugging Face's cache;
// empty stands for the bundled model. Reads the configuration and nothing else. Throws Error(kRuntime) where
// there is no such model, naming where it was looked for.
ModelSource find_model(const std::string& model);

// The bundled model: $SERVAL_ASSETS/serval-stories where the variable is set, else
// share/serval/serval-stories beside the executable's directory or where Serval was installed to, else the
// source tree's.
std::filesystem::path bundled_model_directory();

}  // namespace serval
