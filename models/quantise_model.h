// Writes a model's weights in codes of 8 or 4 bits, as a Hugging Face directory.
#pragma once

#include <cstdint>
#include <filesystem>

#include "models/checkpoint/weight_source.h"
#include "models/model.h"

namespace serval {

struct QuantiseOptions {
  static constexpr int64_t kShardBytes = 5'000'000'000;

  int64_t shard_bytes = kShardBytes;  // of a file at most, unless one tensor takes more
  // As for ModelWeights::load(). It may throw; then nothing is left.
  LoadProgress progress = {};
};

struct QuantisedFiles {
  std::filesystem::path path;
  int64_t bytes = 0;  // of the tensors
  size_t files = 0;   // with tensors
};

// Writes `target` in the layouts of compressed_tensors_writer.h: config.json with "quantization_config", the
// weights in the types that `model` has, and the other files of directory `from`, which is the model's.
// `weights` are those of `model`. Loading `target` gives the same codes and scales, bit for bit, as loading
// `weights`: codes that these keep are copied, other matrices are rounded (quantise_rows.h). The weights need
// not fit into memory, which holds the codes of one matrix at a time.
//
// `target` gets its name when it is whole; what is there before stays if anything fails. Throws Error: kUsage
// for types that are all bf16 and for too many files; kRuntime if `from` is not a directory, if `target`
// exists and is not an empty directory, if it cannot be written, and as WeightSource.
QuantisedFiles quantise_model(const std::filesystem::path& from, const Model& model,
                              const WeightSource& weights, const std::filesystem::path& target,
                              const QuantiseOptions& options = {});

}  // namespace serval
