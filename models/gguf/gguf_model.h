// A model whose configuration, tokenizer, chat template and weights are in a GGUF file.
#pragma once

#include <filesystem>
#include <memory>

#include "models/model_files.h"

namespace serval {

// Opens a GGUF file: the first one of a split model. Throws Error(kRuntime) with one line that names the file
// and the field.
std::shared_ptr<const ModelFiles> open_gguf_model(const std::filesystem::path& path);

}  // namespace serval
