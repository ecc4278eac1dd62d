// Chooses the types in which a model's weights are kept in memory.
#pragma once

#include <string>

#include "engine/include/serval/engine.h"
#include "models/model.h"
#include "models/model_files.h"

namespace serval {

struct ChosenFormats {
  WeightFormats formats;
  // One line: why `auto` chose bf16 for matrices that the checkpoint stores in codes of 8 or 4 bits; else
  // empty.
  std::string notice = {};
};

// The types that the options name. `auto` is the type that the checkpoint stores (ModelFiles::
// stored_formats()) where the options' backend, GPUs and program take it, else bf16; it is bf16 for random
// weights. `files`: null for a preset. Throws Error(kUsage) for a type that is not known and for columns that
// are not whole groups, and as read_program() for options.program.
ChosenFormats choose_formats(const EngineOptions& options, const Model& model, const ModelFiles* files);

}  // namespace serval
