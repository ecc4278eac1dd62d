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
  const std::vector<RankWeight> parts = weights_of_ranks(model, program);
  int64_t bytes = 0;
  for (const RankWeight& weight : parts) {
    if (!weight.has_all_columns()) bytes += weight.part.bytes();
  }
  copies_ = HostBuffer(static_cast<size_t>(bytes), "the ranks' columns of weights");
  int64_t at = 0;
  for (const auto& [tensor, part, matrix_cols] : parts) {
    const Matrix matrix = weights_->matrix(tensor->name);
    uint16_t*& place = places_[{tensor->name, tensor->device}];
    if (part.cols == matrix_cols) {
      place = const_cast<uint16_t*>(matrix.bf16) + part.first_row * matrix.cols;
      continue;
    }
    place = copies_.bf16(static_cast<size_t>(at));
    copy_part(matrix, part, place);
    at += part.bytes();
  }
}

}  // namespace serval
