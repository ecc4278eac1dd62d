// Checkpoints that store a tied weight under both of its names.
#pragma once

#include <filesystem>

#include "models/model.h"

namespace serval {

// Unties a model whose checkpoint stores another LM head beside the embedding, as transformers 5 does, and
// warns of it. Reads both weights where both are stored, and nothing where there is no checkpoint; one that
// cannot be opened is reported when its weights are loaded.
void untie_other_weights(const std::filesystem::path& model_dir, Model& model);

}  // namespace serval
