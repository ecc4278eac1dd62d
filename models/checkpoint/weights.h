// A model's weights in bf16 in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "models/checkpoint/host_buffer.h"
#include "models/checkpoint/weight_source.h"

namespace serval {

// Row-major, rows without padding; aligned to two bytes at least. A norm is one row.
struct Matrix {
  const uint16_t* bf16;  // [rows, cols]
  int64_t rows;
  int64_t cols;
};

// Immutable once made; all const functions may be called from several threads. What matrix() returned stays
// valid, moves included, until the object is destroyed.
class ModelWeights {
 public:
  // All of a source's tensors: used where they lie if they do, read into memory of its own if not. Throws
  // Error(kOutOfMemory) where the latter do not fit, and as WeightSource::require_finite().
  static ModelWeights materialise(std::shared_ptr<const WeightSource> source,
                                  const LoadProgress& progress = {});
  // open_checkpoint_weights() and make_random_weights(), materialised.
  static ModelWeights load(const std::filesystem::path& model_dir, const Model& model,
                           const LoadProgress& progress = {});
  static ModelWeights random(const Model& model, uint64_t seed, const LoadProgress& progress = {});

  // By a name, or the other name, of a spec. Throws Error(kUsage) on any else.
  Matrix matrix(std::string_view name) const;

 private:
  ModelWeights() : buffer_(0, "") {}

  std::shared_ptr<const WeightSource> source_;  // what in-place matrices point into
  HostBuffer buffer_;                           // what the others point into
  std::map<std::string, Matrix, std::less<>> matrices_;
};

}  // namespace serval
