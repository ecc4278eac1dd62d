// An instruction's cost depends on the pass and on the storage of the program's tensors.
#include "gtest/gtest.h"

#include "instructions/isa.h"
#include "instructions/matvec_part/op.h"
#include "instructions/reduce_residual/op.h"
#include "vm/layout/page_image.h"

namespace serval {
namespace {

constexpr uint32_t kCols = 3 * page_image::kPanelCols, kRows = 16;

std::vector<Tensor> tensors_of(DType input, Image weights) {
  return {{.name = "weights", .rows = 64, .cols = kCols, .dtype = DType::kBF16, .image = weights},
          {.name = "input", .rows = kRows, .cols = kCols, .dtype = input}};
}

MatvecPart part_of(uint32_t first_col, uint32_t num_cols) {
  MatvecPart op{};
  op.weights = {0};
  op.input = {1};
  op.num_units = 2;
  op.in_cols = kCols;
  op.out_cols = 64;
  op.first_col = first_col;
  op.num_cols = num_cols;
  op.num_rows = kRows;
  return op;
}

Cost cost_of(const MatvecPart& op, const std::vector<Tensor>& tensors, uint32_t rows) {
  const Instruction i = make_instruction(op);
  return op_info(i.opcode).cost(i, ProgramShape{}, tensors, {.rows = rows});
}

TEST(Cost, OfAProductAreItsPagesAndTheRowsThatTheyAreMultipliedWith) {
  const auto tensors = tensors_of(DType::kBF16, Image::kPages);
  const Cost cost = cost_of(part_of(0, 2048), tensors, 3);
  EXPECT_EQ(cost.bytes, 2U * 2 * 16384);
  EXPECT_EQ(cost.cached_bytes, 3U * 2048 * 2);
  EXPECT_EQ(cost.operations, 2U * 16 * 2048 * 3);
}

TEST(Cost, OfATileIsThatOfItsRows) {
  const auto tensors = tensors_of(DType::kBF16, Image::kPages);
  MatvecPart op = part_of(0, 2048);
  op.first_row = 8;
  op.num_rows = 8;
  const Cost two = cost_of(op, tensors, 10), none = cost_of(op, tensors, 8), all = cost_of(op, tensors, 99);
  EXPECT_EQ(two.bytes, 0U) << "those of the first rows have brought the weights";
  EXPECT_EQ(two.cached_bytes, 2U * 2 * 16384 + 2 * 2048 * 2);
  EXPECT_EQ(two.operations, 2U * 16 * 2048 * 2);
  EXPECT_EQ(none.all_bytes() + none.operations, 0U);
  EXPECT_EQ(all.operations, 2U * 16 * 2048 * 8);
}

// It reads the ranks' sums, reads and writes the residual, and pushes the results to the other ranks.
TEST(Cost, OfAReductionIsWhatItReadsAndPushes) {
  const std::vector<Tensor> tensors = {{.name = "partial", .dtype = DType::kF32},
                                       {.name = "residual", .dtype = DType::kF32},
                                       {.name = "weighted", .dtype = DType::kBF16}};
  ReduceResidual op{};
  op.partial = {0};
  op.residual = {1};
  op.weighted = {2};
  op.num_units = 2;
  op.ranks = 4;
  op.num_rows = 3;
  const Instruction i = make_instruction(op);
  const Cost cost = op_info(i.opcode).cost(i, ProgramShape{}, tensors, {.rows = 3});
  EXPECT_EQ(cost.bytes, 0U);
  EXPECT_EQ(cost.cached_bytes, 3U * 16 * (4 * 4 + 2 * 4));
  EXPECT_EQ(cost.pushed_bytes, 3U * 16 * 3 * 2);
}

TEST(Cost, SeesTheImage) {
  // One more column needs one more page of each unit, but one more element of each row of a row-major matrix.
  const uint64_t pages = cost_of(part_of(1024, 1025), tensors_of(DType::kBF16, Image::kPages), 1).bytes;
  const uint64_t rows = cost_of(part_of(1024, 1025), tensors_of(DType::kBF16, Image::kRowMajor), 1).bytes;
  EXPECT_EQ(pages, 2U * 2 * 16384);
  EXPECT_EQ(rows, 16U * 1025 * 2);
}

TEST(Cost, SeesTheStorageType) {
  const uint64_t bf16 = cost_of(part_of(0, kCols), tensors_of(DType::kBF16, Image::kPages), 4).cached_bytes;
  const uint64_t bytes = cost_of(part_of(0, kCols), tensors_of(DType::kBytes, Image::kPages), 4).cached_bytes;
  EXPECT_EQ(bf16 - bytes, 4U * kCols);
}

}  // namespace
}  // namespace serval
