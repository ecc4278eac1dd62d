#include "engine/backend/host_weights.h"

#include <algorithm>

#include "models/checkpoint/parallel.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/ranks.h"

namespace serval {
namespace {

bool needs_copy(const RankWeight& weight, const Matrix& matrix) {
  return weight.tensor->dtype != matrix.dtype || !weight.has_all_columns();
}

// The rank's rows in a matrix of which it has all columns, as they are stored.
uint16_t* rows_in_place(const Matrix& matrix, const WeightPart& part) {
  const uint16_t* rows =
      matrix.codes == nullptr
          ? matrix.bf16 + part.first_row * matrix.cols
          : reinterpret_cast<const uint16_t*>(matrix.codes +
                                              bytes_of_weights(matrix.dtype, part.first_row, matrix.cols));
  return const_cast<uint16_t*>(rows);
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
void quantise_part(const Matrix& matrix, const WeightPart& part, DType dtype, uint8_t* to) {
  const int64_t row_bytes = bytes_of_weights(dtype, 1, part.cols);
  for_each_piece(static_cast<size_t>(part.rows),
                 [&](size_t row) {
                   const auto r = static_cast<int64_t>(row);
                   quantise_rows(dtype, matrix.bf16 + (part.first_row + r) * matrix.cols, 1, part.cols,
                                 to + r * row_bytes);
                 },
                 {});
}

void write_copy(const Matrix& matrix, const WeightPart& part, DType dtype, uint16_t* to) {
  if (has_codes(dtype)) {
    quantise_part(matrix, part, dtype, reinterpret_cast<uint8_t*>(to));
  } else {
    copy_part(matrix, part, to);
  }
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
    Place place{weight.source_name, tensor.dtype, weight.part, needs_copy(weight, matrix), nullptr};
    if (place.is_copy) {
      place.at = copies_.bf16(static_cast<size_t>(at));
      write_copy(matrix, place.part, place.dtype, place.at);
      at += copy_bytes(weight);
    } else {
      place.at = rows_in_place(matrix, place.part);
    }
    places_.emplace(std::pair(tensor.name, tensor.device), std::move(place));
  }
}

bool HostWeights::is_used_whole(const std::string& source_name) const {
  return std::ranges::any_of(places_, [&](const auto& entry) {
    const Place& place = entry.second;
    return !place.is_copy && !place.has_stored_codes() && place.source_name == source_name;
  });
}

// Memory for the whole matrix, if one is needed besides the source's. New memory is added to `added`.
Matrix HostWeights::new_matrix(const WeightSource& source, size_t tensor, Matrices& added) const {
  const WeightSpec& spec = source.specs()[tensor];
  const uint16_t* in_place = source.in_place(tensor);
  if (in_place != nullptr && !is_used_whole(spec.name)) return {in_place, spec.rows, spec.cols};
  const auto found = replaced_.find(spec.name);
  if (found != replaced_.end()) return {found->second.bf16(0), spec.rows, spec.cols};
  HostBuffer memory(static_cast<size_t>(spec.bytes_bf16()), "new weights");
  const Matrix matrix{memory.bf16(0), spec.rows, spec.cols};
  added.emplace(spec.name, std::move(memory));
  return matrix;
}

bool HostWeights::replace(const WeightSource& source) {
  const std::vector<WeightSpec>& specs = source.specs();
  std::vector<Matrix> matrices(specs.size());
  Matrices added;
  for (size_t i = 0; i < specs.size(); ++i)
    if (source.has(i)) matrices[i] = new_matrix(source, i, added);
  std::map<Key, HostBuffer> codes;
  for (const auto& [key, place] : places_) {
    if (place.has_stored_codes() && source.has(source.index_of(place.source_name)))
      codes.emplace(
          key,
          HostBuffer(static_cast<size_t>(bytes_of_weights(place.dtype, place.part.rows, place.part.cols)),
                     "new weights"));
  }
  replaced_.merge(added);
  codes_.merge(codes);
  for_each_weight_piece(cut_into_pieces(source),
                        [&](const WeightPiece& piece) {
                          const uint16_t* to = matrices[piece.tensor].bf16;
                          if (to == source.in_place(piece.tensor)) return;
                          source.read(
                              piece.tensor, piece.first,
                              {const_cast<uint16_t*>(to) + piece.first, static_cast<size_t>(piece.count)});
                        },
                        source.total_bytes(), {});
  bool moved = false;
  for (auto& [key, place] : places_) {
    const size_t tensor = source.index_of(place.source_name);
    if (!source.has(tensor)) continue;
    if (place.has_stored_codes()) {
      place.is_copy = moved = true;
      place.at = codes_.at(key).bf16(0);
    }
    if (place.is_copy) {
      write_copy(matrices[tensor], place.part, place.dtype, place.at);
    } else {
      uint16_t* at = rows_in_place(matrices[tensor], place.part);
      moved = moved || at != place.at;
      place.at = at;
    }
  }
  std::erase_if(replaced_, [&](const auto& entry) { return !is_used_whole(entry.first); });
  if (std::ranges::all_of(places_, [&](const auto& entry) {
        return entry.second.is_copy || replaced_.contains(entry.second.source_name);
      }))
    weights_.reset();
  return moved;
}

}  // namespace serval
