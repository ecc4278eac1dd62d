// Splits a model over several devices, called ranks (docs/several_gpus.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/checkpoint/weight_spec.h"
#include "models/model.h"
#include "vm/program.h"

namespace serval {

// Throws Error(kUsage) with the offending field unless `ranks` devices can share the model. Requires 1 to
// kMaxDevices ranks, the same number of query heads on each, as many KV heads on each (or one KV head that
// several ranks share), the same number of whole tiles of hidden and intermediate columns, and no rank with a
// single token of the vocabulary.
void check_ranks(const ModelShape& model, uint32_t ranks);

// KV heads of a rank: at least one, which ranks share if there are more ranks than KV heads.
constexpr uint32_t kv_heads_of_rank(uint32_t kv_heads, uint32_t ranks) {
  return kv_heads > ranks ? kv_heads / ranks : 1;
}

// The contiguous rows and columns of a weight that a rank holds.
struct WeightPart {
  int64_t first_row = 0, rows = 0;
  int64_t first_col = 0, cols = 0;

  bool is_whole(const WeightSpec& spec) const { return rows == spec.rows && cols == spec.cols; }
};
WeightPart part_of_rank(const WeightSpec& spec, uint32_t rank, uint32_t ranks);

// A weight tensor of a program. It holds one rank's part of the model's weight.
struct RankWeight {
  const Tensor* tensor;  // of the program's table
  WeightPart part;
  int64_t matrix_cols;      // of the whole weight
  std::string source_name;  // of the weight whose values it has (WeightSpec::source_name())

  bool has_all_columns() const { return part.cols == matrix_cols; }
};
// The weights of all ranks, in the order of the tensor table. The program must fit the model.
std::vector<RankWeight> weights_of_ranks(const Model& model, const Program& program);

// Bytes that each rank holds. check_ranks() must accept `ranks`.
int64_t weight_bytes_of_rank(const Model& model, uint32_t rank, uint32_t ranks);
int64_t kv_bytes_per_token_of_rank(const ModelShape& model, uint32_t ranks);

}  // namespace serval
