// A model's weights in host memory: in bf16, or in the codes that the checkpoint stores.
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

// A norm has one row.
struct Matrix {
  const uint16_t* bf16;  // [rows, cols], aligned to at least two bytes; null if the matrix is kept in codes
  int64_t rows;
  int64_t cols;
  // [rows] of row_bytes_of(dtype, cols) (vm/layout/weight_rows.h), aligned to four bytes; null for bf16.
  const uint8_t* codes = nullptr;
  DType dtype = DType::kBF16;
};

// Immutable and thread-safe. Matrices stay valid until the object is destroyed; moving it keeps them valid.
class ModelWeights {
 public:
  // Loads all tensors of a source: uses those that are in place, and reads the others into a buffer, in codes
  // where the source keeps them. Throws Error(kOutOfMemory) if the buffer does not fit into memory, and as
  // WeightSource::require_finite() and read_codes().
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
