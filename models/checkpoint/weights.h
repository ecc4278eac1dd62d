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

// Row-major, without padding between rows, aligned to at least two bytes. A norm has one row.
struct Matrix {
  const uint16_t* bf16;  // [rows, cols]
  int64_t rows;
  int64_t cols;
};

// Immutable and thread-safe. Matrices stay valid until the object is destroyed; moving it keeps them valid.
class ModelWeights {
 public:
  // Loads all tensors of a source: uses those that are in place, and reads the others into a buffer. Throws
  // Error(kOutOfMemory) if the buffer does not fit into memory, and throws as WeightSource::require_finite().
  static ModelWeights materialise(std::shared_ptr<const WeightSource> source,
                                  const LoadProgress& progress = {});
  // Materialise open_checkpoint_weights() and make_random_weights().
  static ModelWeights load(const std::filesystem::path& model_dir, const Model& model,
                           const LoadProgress& progress = {});
  static ModelWeights random(const Model& model, uint64_t seed, const LoadProgress& progress = {});

  // Finds a weight by the name or alias of its spec. Throws Error(kUsage) if there is none.
  Matrix matrix(std::string_view name) const;

 private:
  ModelWeights() : buffer_(0, "") {}

  std::shared_ptr<const WeightSource> source_;  // owns in-place matrices
  HostBuffer buffer_;                           // owns the others
  std::map<std::string, Matrix, std::less<>> matrices_;
};

}  // namespace serval
