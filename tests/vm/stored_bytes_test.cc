// A tensor's size in GPU memory depends on its image and its storage type.
#include "vm/stored_bytes.h"

#include "gtest/gtest.h"

namespace serval {
namespace {

Tensor tensor(uint64_t rows, uint64_t cols, DType dtype, Image image) {
  return {.name = "t", .rows = rows, .cols = cols, .dtype = dtype, .image = image};
}

TEST(StoredBytes, OfARowMajorTensorAreThoseOfItsElements) {
  EXPECT_EQ(stored_bytes(tensor(3, 1000, DType::kF32, Image::kRowMajor)), 12000U);
  EXPECT_EQ(stored_bytes(tensor(3, 1000, DType::kBytes, Image::kRowMajor)), 3000U);
  EXPECT_EQ(stored_bytes(tensor(64, 128, DType::kBF16, Image::kKvBlocks)), 16384U);
}

TEST(StoredBytes, OfImagesIncludeThePadding) {
  // Units of 8 rows: 9 rows are two units. A panel of 1,024 columns of a unit is a page of 16 KiB.
  EXPECT_EQ(stored_bytes(tensor(9, 2048, DType::kBF16, Image::kPages)), 4U * 16384);
  // Tiles of 16 rows, each of two halves of 512 columns and 64 bytes.
  EXPECT_EQ(stored_bytes(tensor(1, 1024, DType::kBF16, Image::kActivation)), 16U * 2 * (1024 + 64));
  // 64 columns of a row are 128 bytes of a slab; a slab has no padding rows.
  EXPECT_EQ(stored_bytes(tensor(100, 2048, DType::kBF16, Image::kSlabs)), 100U * 2048 * 2);
}

TEST(StoredBytes, OfPartOfAPageImageAreItsWholePages) {
  const Tensor weights = tensor(64, 2500, DType::kBF16, Image::kPages);
  const uint64_t unit = stored_bytes(weights) / 8;
  EXPECT_EQ(stored_bytes(weights, {0, 64, 0, 2500}), 8 * unit);
  EXPECT_EQ(stored_bytes(weights, {8, 16, 0, 2500}), unit);
  EXPECT_EQ(stored_bytes(weights, {9, 10, 0, 2500}), unit);
  EXPECT_EQ(stored_bytes(weights, {7, 9, 0, 2500}), 2 * unit);
  EXPECT_EQ(stored_bytes(weights, {0, 8, 0, 1024}), 16384U);
  EXPECT_EQ(stored_bytes(weights, {0, 8, 1024, 2500}), unit - 16384);
  EXPECT_EQ(stored_bytes(weights, {0, 8, 1030, 1031}), 16384U);
  EXPECT_EQ(stored_bytes(weights, {3, 3, 0, 2500}), 0U);
}

TEST(StoredBytes, OfPartOfAnyOtherTensorAreItsElements) {
  EXPECT_EQ(stored_bytes(tensor(64, 2500, DType::kBF16, Image::kSlabs), {1, 3, 10, 20}), 2U * 10 * 2);
  EXPECT_EQ(stored_bytes(tensor(64, 2500, DType::kF32, Image::kRowMajor), {1, 3, 10, 20}), 2U * 10 * 4);
}

}  // namespace
}  // namespace serval
