// In which types a checkpoint stores the matrices that can be kept in memory as they are.
#pragma once

#include <filesystem>
#include <string>

#include "models/model.h"

namespace serval {

struct StoredFormats {
  // kE4M3 if the checkpoint stores each of these matrices in e4m3, with a scale for the whole matrix or for
  // each row. A type of 4-bit integers if each is in 4-bit integers, in groups of neighbouring columns that
  // the type has. kBF16 otherwise.
  WeightFormats formats;
  // The first matrix that is stored in another way, and so the reason why all of them are kBF16. Empty if
  // none of them is in codes, or all are.
  std::string layers_reason = {}, lm_head_reason = {};
};

// Reads configuration and headers, no weights. All types are kBF16, without a reason, for a directory that
// has no checkpoint or a damaged one: loading the weights reports that.
StoredFormats stored_formats(const std::filesystem::path& model_dir, const Model& model);

}  // namespace serval
