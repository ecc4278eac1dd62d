// Names and layouts of a model's weights.
#pragma once

#include <cstdint>
#include <string>

#include "vm/dtype.h"
#include "vm/layout/row_bytes.h"
#include "vm/tensor.h"

namespace serval {

enum class WeightKind : uint8_t {
  kMatrix,
  kNorm,  // a vector of factors near 1
  kBias,  // a vector that is added
};

// How ranks share a weight (models/ranks.h).
enum class WeightSplit : uint8_t {
  kNone,  // each rank has all of it
  kRows,
  kCols,
};

// Bytes of a row-major matrix of weights.
constexpr int64_t bytes_of_weights(DType dtype, int64_t rows, int64_t cols) {
  return rows * static_cast<int64_t>(row_bytes_of(dtype, static_cast<uint64_t>(cols)));
}

// Row-major. A matrix maps a vector of `cols` elements to one of `rows` elements. A vector has rows == 1 and,
// in a checkpoint, one dimension.
struct WeightSpec {
  std::string name;  // as in the checkpoint
  WeightKind kind = WeightKind::kMatrix;
  int64_t rows = 0;
  int64_t cols = 0;
  RowOrder row_order = RowOrder::kSequential;
  bool gathered = false;  // a pass reads only the rows of its tokens
  WeightSplit split = WeightSplit::kNone;
  int64_t piece = 1;           // rows or columns that must be on one rank, such as those of a head
  std::string alias = {};      // second name of a tied weight; some checkpoints store it under both
  DType dtype = DType::kBF16;  // in which it is stored in memory: kBF16 or one of has_codes()
  // Name of the weight whose values this one has: a tied LM head that is stored in another type than the
  // embedding. Checkpoints do not have it.
  std::string copy_of = {};

  const std::string& source_name() const { return copy_of.empty() ? name : copy_of; }
  int64_t elements() const { return rows * cols; }
  int64_t row_bytes() const { return bytes_of_weights(dtype, 1, cols); }
  int64_t bytes() const { return bytes_of_weights(dtype, rows, cols); }
  int64_t bytes_bf16() const { return bytes_of_weights(DType::kBF16, rows, cols); }
};

}  // namespace serval
