#include "engine/backend/host_weights.h"

#include <algorithm>

#include "models/ranks.h"

namespace serval {
namespace {

void copy_part(const Matrix& matrix, const WeightPart& part, uint16_t* to) {
  for (int64_t row = 0; row < part.rows; ++row) {
    const uint16_t* from = matrix.bf16 + (part.first_row + row) * matrix.cols + part.first_col;
    std::copy_n(from, part.cols, to + row * part.cols);
  }
}

}  // namespace

HostWeights::HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model,
                         const Program& program)
    : weights_(std::move(weights)), copies_(0, "") {
  std::map<std::string, WeightSpec> specs;
  for (WeightSpec& spec : model.weights()) specs.emplace(spec.name, std::move(spec));
  // Calls fn(tensor, matrix, part) for each weight, or for those that are copied.
  const auto for_weights = [&](bool copied, auto&& fn) {
    for (const Tensor& tensor : program.tensors) {
      if (tensor.kind != TensorKind::kWeight) continue;
      const Matrix matrix = weights_->matrix(tensor.name);
      const WeightPart part = part_of_rank(specs.at(tensor.name), tensor.device, program.num_devices);
      if ((part.cols != matrix.cols) == copied) fn(tensor, matrix, part);
    }
  };
  for_weights(false, [&](const Tensor& tensor, const Matrix& matrix, const WeightPart& part) {
    places_[{tensor.name, tensor.device}] = const_cast<uint16_t*>(matrix.bf16) + part.first_row * matrix.cols;
  });
  int64_t bytes = 0;
  for_weights(true, [&](const Tensor&, const Matrix&, const WeightPart& part) { bytes += part.bytes(); });
  copies_ = HostBuffer(static_cast<size_t>(bytes), "the ranks' columns of weights");
  int64_t at = 0;
  for_weights(true, [&](const Tensor& tensor, const Matrix& matrix, const WeightPart& part) {
    uint16_t* to = copies_.bf16(static_cast<size_t>(at));
    copy_part(matrix, part, to);
    places_[{tensor.name, tensor.device}] = to;
    at += part.bytes();
  });
}

}  // namespace serval
