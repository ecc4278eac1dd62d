// What a model's weights are called and how they are laid out. No weight is touched.
#pragma once

#include <cstdint>
#include <string>

#include "vm/dtype.h"
#include "vm/tensor.h"

namespace serval {

enum class WeightKind : uint8_t {
  kMatrix,
  kNorm,  // a vector of factors near 1
  kBias,  // a vector that is added
};

// How ranks share a weight (models/ranks.h).
enum class WeightSplit : uint8_t {
  kNone,  // each has all of it
  kRows,
  kCols,
};

// Row-major; a matrix maps a vector of `cols` elements to one of `rows`. A vector has rows = 1, and one
// dimension in a checkpoint.
struct WeightSpec {
  std::string name;  // as in the checkpoint
  WeightKind kind = WeightKind::kMatrix;
  int64_t rows = 0;
  int64_t cols = 0;
  RowOrder row_order = RowOrder::kSequential;
  bool gathered = false;  // a pass reads the rows of its tokens and not the others
  WeightSplit split = WeightSplit::kNone;
  int64_t piece = 1;            // rows or columns that stay together, as those of a head do
  std::string other_name = {};  // under which it may be asked for as well, and some checkpoints repeat it

  int64_t elements() const { return rows * cols; }
  int64_t bytes() const { return elements() * size_of(DType::kBF16); }
  int64_t row_bytes() const { return cols * size_of(DType::kBF16); }
};

}  // namespace serval
