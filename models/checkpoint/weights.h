// A Llama model's weights in bf16, from a checkpoint or made by the hash of random_weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/checkpoint/host_buffer.h"
#include "models/checkpoint/weight_specs.h"

namespace serval {

// Row-major, rows without padding; aligned to two bytes at least. A norm is one row.
struct Matrix {
  const uint16_t* bf16;  // [rows, cols]
  int64_t rows;
  int64_t cols;
};

// Bytes of bf16 weights that are ready, and how many there will be. Called on the loading thread, last with
// done == total. An exception from it ends the loading and goes on to the caller.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// Immutable once made; all const functions may be called from several threads. What matrix() returned stays
// valid, moves included, until the object is destroyed.
class ModelWeights {
 public:
  // BF16 tensors are used where the file is mapped; F16 and F32 are converted, which one log line says.
  // Throws Error(kRuntime) where a tensor is missing, of another shape than `config` asks, or of a type that
  // is not one of the three, and Error(kOutOfMemory) where the converted ones do not fit. A tensor that the
  // model has no use for is a warning.
  static ModelWeights load(const std::filesystem::path& model_dir, const LlamaConfig& config,
                           const LoadProgress& progress = {});

  // Throws Error(kOutOfMemory) where config.weight_bytes_bf16() does not fit.
  static ModelWeights random(const LlamaConfig& config, uint64_t seed, const LoadProgress& progress = {});

  // By a name of weight_specs.h. "lm_head.weight" is the embedding where the two are tied. Throws
  // Error(kUsage) on another name.
  Matrix matrix(std::string_view name) const;

 private:
  ModelWeights() = default;
  void add(const WeightSpec& spec, const uint16_t* bf16);
  void tie_lm_head(const LlamaConfig& config);

  std::unique_ptr<const Checkpoint>
      checkpoint_;                   // what in-place matrices point into; absent for random weights
  std::vector<HostBuffer> buffers_;  // what the others point into
  std::map<std::string, Matrix, std::less<>> matrices_;
};

}  // namespace serval
