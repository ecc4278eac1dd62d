#include "engine/backend/host_weights.h"

#include <algorithm>

#include "fmt/format.h"

#include "models/ranks.h"

namespace serval {
namespace {

HostBuffer copy_part(const Matrix& matrix, const WeightPart& part, const std::string& purpose) {
  HostBuffer copy(static_cast<size_t>(part.bytes()), purpose);
  for (int64_t row = 0; row < part.rows; ++row) {
    const uint16_t* from = matrix.bf16 + (part.first_row + row) * matrix.cols + part.first_col;
    std::copy_n(from, part.cols, copy.bf16(0) + row * part.cols);
  }
  return copy;
}

}  // namespace

HostWeights::HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model,
                         const Program& program)
    : weights_(std::move(weights)) {
  std::map<std::string, WeightSpec> specs;
  for (WeightSpec& spec : model.weights()) specs.emplace(spec.name, std::move(spec));
  for (const Tensor& tensor : program.tensors) {
    if (tensor.kind != TensorKind::kWeight) continue;
    const Matrix matrix = weights_->matrix(tensor.name);
    const WeightPart part = part_of_rank(specs.at(tensor.name), tensor.device, program.num_devices);
    auto* place = const_cast<uint16_t*>(matrix.bf16) + part.first_row * matrix.cols;
    if (part.cols != matrix.cols) {
      copies_.push_back(copy_part(matrix, part, fmt::format("columns of {}", name_in(program, tensor))));
      place = copies_.back().bf16(0);
    }
    places_[{tensor.name, tensor.device}] = place;
  }
}

}  // namespace serval
