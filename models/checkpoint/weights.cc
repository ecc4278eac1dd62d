#include "models/checkpoint/weights.h"

#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"

#include "vm/base/error.h"
#include "vm/base/json_fields.h"

namespace serval {
namespace {

constexpr int64_t kTensorAlignment = 64;  // bytes; tensors in the buffer start at a cache line

int64_t padded_bytes(const WeightSource& source, size_t tensor) {
  const WeightSpec& spec = source.specs()[tensor];
  const int64_t bytes = source.keeps_codes(tensor) ? spec.bytes() : spec.bytes_bf16();
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Size of the tensors that are not in place.
int64_t bytes_to_copy(const WeightSource& source) {
  int64_t bytes = 0;
  for (size_t tensor = 0; tensor < source.specs().size(); ++tensor)
    if (source.in_place(tensor) == nullptr) bytes += padded_bytes(source, tensor);
  return bytes;
}

}  // namespace

ModelWeights ModelWeights::load(const std::filesystem::path& model_dir, const Model& model,
                                const LoadProgress& progress) {
  return materialise(open_checkpoint_weights(model_dir, model), progress);
}

ModelWeights ModelWeights::random(const Model& model, uint64_t seed, const LoadProgress& progress) {
  return materialise(make_random_weights(model, seed), progress);
}

ModelWeights ModelWeights::materialise(std::shared_ptr<const WeightSource> source,
                                       const LoadProgress& progress) {
  const std::vector<WeightSpec>& specs = source->specs();
  ModelWeights weights;
  weights.buffer_ = HostBuffer(static_cast<size_t>(bytes_to_copy(*source)), source->name());
  std::vector<uint16_t*> copies(specs.size(), nullptr);
  int64_t offset = 0;
  for (size_t tensor = 0; tensor < specs.size(); ++tensor) {
    Matrix matrix{source->in_place(tensor), specs[tensor].rows, specs[tensor].cols};
    if (matrix.bf16 == nullptr) {
      copies[tensor] = weights.buffer_.bf16(static_cast<size_t>(offset));
      offset += padded_bytes(*source, tensor);
      if (source->keeps_codes(tensor)) {
        matrix.codes = reinterpret_cast<const uint8_t*>(copies[tensor]);
        matrix.dtype = specs[tensor].dtype;
      } else {
        matrix.bf16 = copies[tensor];
      }
    }
    weights.matrices_.emplace(specs[tensor].name, matrix);
    if (!specs[tensor].alias.empty()) weights.matrices_.emplace(specs[tensor].alias, matrix);
  }
  const auto load_piece = [&](const WeightPiece& piece) {
    if (source->keeps_codes(piece.tensor)) {
      const WeightSpec& spec = specs[piece.tensor];
      const int64_t first_row = piece.first / spec.cols;
      return source->read_codes(
          piece.tensor, first_row, piece.count / spec.cols,
          reinterpret_cast<uint8_t*>(copies[piece.tensor]) + first_row * spec.row_bytes());
    }
    const auto count = static_cast<size_t>(piece.count);
    if (uint16_t* out = copies[piece.tensor]) {
      source->read(piece.tensor, piece.first, {out + piece.first, count});
    } else {
      source->fetch(piece.tensor, piece.first, piece.count);
    }
    const uint16_t* bf16 = weights.matrix(specs[piece.tensor].name).bf16;
    source->require_finite(piece.tensor, piece.first, {bf16 + piece.first, count});
  };
  for_each_weight_piece(cut_into_pieces(*source), load_piece, source->total_bytes(), progress);
  source->report();
  weights.source_ = std::move(source);
  return weights;
}

Matrix ModelWeights::matrix(std::string_view name) const {
  const auto found = matrices_.find(name);
  if (found == matrices_.end())
    throw Error(ErrorKind::kUsage, fmt::format("weights: the model has no tensor {}", shown(name)));
  return found->second;
}

}  // namespace serval
