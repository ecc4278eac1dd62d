#include "engine/backend/host_weights.h"

#include <algorithm>

#include "models/checkpoint/parallel.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/ranks.h"
#include "vm/layout/e4m3_rows.h"

namespace serval {
namespace {

bool needs_copy(const RankWeight& weight, const Matrix& matrix) {
  return (weight.tensor->dtype == DType::kE4M3 && matrix.e4m3 == nullptr) || !weight.has_all_columns();
}

// The rank's rows in a matrix of which it has all columns.
const uint16_t* rows_in_place(const RankWeight& weight, const Matrix& matrix) {
  const int64_t first_row = weight.part.first_row;
  if (matrix.e4m3 == nullptr) return matrix.bf16 + first_row * matrix.cols;
  return reinterpret_cast<const uint16_t*>(matrix.e4m3 +
                                           bytes_of_weights(DType::kE4M3, first_row, matrix.cols));
}

// Bytes of a copy, up to a multiple of what its elements and scales are aligned to.
int64_t copy_bytes(const RankWeight& weight) {
  constexpr int64_t kAlignment = 16;
  const int64_t bytes = bytes_of_weights(weight.tensor->dtype, weight.part.rows, weight.part.cols);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void copy_part(const Matrix& matrix, const WeightPart& part, uint16_t* to) {
  for (int64_t row = 0; row < part.rows; ++row) {
    const uint16_t* from = matrix.bf16 + (part.first_row + row) * matrix.cols + part.first_col;
    std::copy_n(from, part.cols, to + row * part.cols);
  }
}

// Quantises a rank's rows, which have all columns.
void quantise_part(const Matrix& matrix, const WeightPart& part, uint8_t* to) {
  const auto row_bytes = static_cast<int64_t>(e4m3_rows::row_bytes(static_cast<uint64_t>(part.cols)));
  for_each_piece(static_cast<size_t>(part.rows),
                 [&](size_t row) {
                   const auto r = static_cast<int64_t>(row);
                   quantise_rows(matrix.bf16 + (part.first_row + r) * matrix.cols, 1, part.cols,
                                 to + r * row_bytes);
                 },
                 {});
}

}  // namespace

HostWeights::HostWeights(std::shared_ptr<const ModelWeights> weights, const Model& model,
                         const Program& program)
    : weights_(std::move(weights)), copies_(0, "") {
  const std::vector<RankWeight> parts = weights_of_ranks(model, program);
  int64_t bytes = 0;
  for (const RankWeight& weight : parts)
    bytes += needs_copy(weight, weights_->matrix(weight.source_name)) ? copy_bytes(weight) : 0;
  copies_ = HostBuffer(static_cast<size_t>(bytes), "copies of weights");
  int64_t at = 0;
  for (const RankWeight& weight : parts) {
    const Tensor& tensor = *weight.tensor;
    const Matrix matrix = weights_->matrix(weight.source_name);
    uint16_t*& place = places_[{tensor.name, tensor.device}];
    if (!needs_copy(weight, matrix)) {
      place = const_cast<uint16_t*>(rows_in_place(weight, matrix));
      continue;
    }
    place = copies_.bf16(static_cast<size_t>(at));
    if (tensor.dtype == DType::kE4M3) {
      quantise_part(matrix, weight.part, reinterpret_cast<uint8_t*>(place));
    } else {
      copy_part(matrix, weight.part, place);
    }
    at += copy_bytes(weight);
  }
}

}  // namespace serval
