// Handles checkpoints that store a tied weight under both of its names.
#pragma once

#include <filesystem>

#include "models/model.h"

namespace serval {

// If the checkpoint stores an LM head that differs from the tied embedding, unties the model, as transformers
// 5 does, and logs a warning. Reads both weights if both are stored. Does nothing if the checkpoint is
// missing or cannot be opened: loading the weights reports that.
void untie_differing_weights(const std::filesystem::path& model_dir, Model& model);

}  // namespace serval
