// How a model is split over several devices, its ranks (docs/several_gpus.md).
#pragma once

#include <cstdint>
#include <vector>

#include "models/checkpoint/weight_spec.h"
#include "models/model.h"
#include "vm/program.h"

namespace serval {

// Throws Error(kUsage) with the number that does not divide, unless `ranks` devices can share the model: 1 to
// kMaxDevices of them, each with the same number of query heads, KV heads (or one that it has in common with
// others) and whole tiles of the hidden and intermediate columns.
void check_ranks(const ModelShape& model, uint32_t ranks);

// KV heads that a rank has.
constexpr uint32_t kv_heads_of_rank(uint32_t kv_heads, uint32_t ranks) {
  return kv_heads > ranks ? kv_heads / ranks : 1;
}

// Rows and columns of a weight that a rank has: all, or neighbouring ones.
struct WeightPart {
  int64_t first_row = 0, rows = 0;
  int64_t first_col = 0, cols = 0;

  int64_t bytes() const { return rows * cols * size_of(DType::kBF16); }
  bool is_whole(const WeightSpec& spec) const { return rows == spec.rows && cols == spec.cols; }
};
WeightPart part_of_rank(const WeightSpec& spec, uint32_t rank, uint32_t ranks);

// A weight of a program, which has a rank's part of it.
struct RankWeight {
  const Tensor* tensor;  // of the program's table
  WeightPart part;
  int64_t matrix_cols;  // of the whole weight

  bool has_all_columns() const { return part.cols == matrix_cols; }
};
// Those of all ranks, in the order of the tensor table. The program is the model's.
std::vector<RankWeight> weights_of_ranks(const Model& model, const Program& program);

// What the ranks hold of a model that they can share.
int64_t weight_bytes_of_rank(const Model& model, uint32_t rank, uint32_t ranks);
int64_t kv_bytes_per_token_of_rank(const ModelShape& model, uint32_t ranks);

}  // namespace serval
