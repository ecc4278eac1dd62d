#include "engine/device/weight_slices.h"

#include <algorithm>

namespace serval {
namespace {

// Interleaves the lists: the first element of each, then the second of each, and so on.
std::vector<WeightPiece> in_turn(const std::vector<std::vector<WeightPiece>>& lists) {
  size_t longest = 0;
  for (const std::vector<WeightPiece>& list : lists) longest = std::max(longest, list.size());
  std::vector<WeightPiece> out;
  for (size_t i = 0; i < longest; ++i) {
    for (const std::vector<WeightPiece>& list : lists) {
      if (i < list.size()) out.push_back(list[i]);
    }
  }
  return out;
}

}  // namespace

std::vector<WeightPiece> cut_into_slices(std::span<const RankWeight> weights,
                                         std::span<const int64_t> rows_of_slice) {
  std::vector<std::vector<WeightPiece>> of_ranks(kMaxDevices);
  for (size_t i = 0; i < weights.size(); ++i) {
    const RankWeight& weight = weights[i];
    const int64_t step = rows_of_slice[i], end = weight.part.first_row + weight.part.rows;
    for (int64_t first = weight.part.first_row; first < end; first += step) {
      of_ranks.at(weight.tensor->device)
          .push_back({i, first * weight.matrix_cols, std::min(step, end - first) * weight.matrix_cols});
    }
  }
  return in_turn(of_ranks);
}

int64_t elements_of_slice(const RankWeight& weight, const WeightPiece& slice) {
  return slice.count / weight.matrix_cols * weight.part.cols;
}

void read_slice(const WeightSource& source, size_t tensor, const RankWeight& weight, const WeightPiece& slice,
                std::span<uint16_t> out) {
  const auto read = [&](int64_t first, std::span<uint16_t> to) {
    source.read(tensor, first, to);
    source.require_finite(tensor, first, to);
  };
  source.fetch(tensor, slice.first, slice.count);
  if (weight.has_all_columns()) return read(slice.first, out);
  const auto cols = static_cast<size_t>(weight.part.cols);
  for (int64_t row = slice.first; row < slice.first + slice.count; row += weight.matrix_cols) {
    read(row + weight.part.first_col, out.first(cols));
    out = out.subspan(cols);
  }
}

}  // namespace serval
