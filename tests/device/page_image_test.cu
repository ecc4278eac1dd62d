// Compares kernels that write page images with the layout's definition (page_image::element_offset) and with
// the host's random weights.
#include <vector>

#include "gtest/gtest.h"

#include "engine/device/weight_kernels.h"
#include "models/checkpoint/random_weights.h"
#include "tests/device/packed_shape.h"
#include "vm/device/cuda_resources.h"
#include "vm/layout/page_image.h"

namespace serval {
namespace {

constexpr uint16_t kPoison = 0xDEAD;  // initial content of the image; no test uses this value

using testing::kPackedShapes;
using testing::matrix_row;
using Shape = testing::PackedShape;

Tensor weight_of(const Shape& shape) {
  return testing::weight_of(shape, DType::kBF16);
}

std::vector<uint16_t> random_matrix(const Shape& shape, uint64_t seed) {
  std::vector<uint16_t> out(shape.rows * shape.cols);
  fill_random_matrix(out, random_tensor_key(weight_of(shape).name, seed), 0,
                     random_matrix_scale(static_cast<int64_t>(shape.cols)));
  return out;
}

// The image element by element; the rest is zero.
std::vector<uint16_t> expected_image(const Shape& shape, const std::vector<uint16_t>& matrix) {
  const auto cols = static_cast<uint32_t>(shape.cols);
  std::vector<uint16_t> image(page_image::bytes(shape.rows, cols) / sizeof(uint16_t), 0);
  for (uint64_t row = 0; row < shape.rows; ++row) {
    for (uint32_t col = 0; col < cols; ++col) {
      const uint32_t panel = col / page_image::kPanelCols;
      const uint64_t byte =
          page_image::page_offset(cols, static_cast<uint32_t>(row / kUnitRows), panel) +
          page_image::element_offset(page_image::half_cols(cols, panel),
                                     static_cast<uint32_t>(row % kUnitRows), col % page_image::kPanelCols);
      image.at(byte / sizeof(uint16_t)) = matrix.at(matrix_row(shape, row) * shape.cols + col);
    }
  }
  return image;
}

class ImageOnGpu {
 public:
  explicit ImageOnGpu(const Shape& shape)
      : elements_(page_image::bytes(shape.rows, static_cast<uint32_t>(shape.cols)) / sizeof(uint16_t)),
        buffer_(elements_ * sizeof(uint16_t)) {
    const std::vector<uint16_t> poison(elements_, kPoison);
    SERVAL_CUDA_CHECK(cudaMemcpy(buffer_.data(), poison.data(), buffer_.size(), cudaMemcpyHostToDevice));
  }
  std::byte* data() const { return buffer_.data(); }
  std::vector<uint16_t> download() const {
    std::vector<uint16_t> out(elements_);
    SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), buffer_.data(), buffer_.size(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  size_t elements_;
  DeviceBuffer buffer_;
};

// Packs like upload_weights(): the matrix in slices of `slice` times the least number of rows.
std::vector<uint16_t> pack_in_slices(const Shape& shape, const std::vector<uint16_t>& matrix,
                                     uint64_t slice) {
  const Tensor weight = weight_of(shape);
  const ImageOnGpu image(shape);
  const uint64_t step = slice * slice_rows(weight);
  for (uint64_t first = 0; first < shape.rows; first += step) {
    const uint64_t rows = std::min(step, shape.rows - first);
    const DeviceBuffer staged(rows * shape.cols * sizeof(uint16_t));
    SERVAL_CUDA_CHECK(
        cudaMemcpy(staged.data(), matrix.data() + first * shape.cols, staged.size(), cudaMemcpyHostToDevice));
    pack_rows(weight, first, rows, reinterpret_cast<const uint16_t*>(staged.data()), image.data(), nullptr);
  }
  return image.download();
}

TEST(PageImage, IsThatOfTheLayout) {
  for (const Shape& shape : kPackedShapes) {
    const std::vector<uint16_t> matrix = random_matrix(shape, 5);
    const std::vector<uint16_t> expected = expected_image(shape, matrix);
    for (const uint64_t slice : {1, 3, 1000}) {
      EXPECT_EQ(pack_in_slices(shape, matrix, slice), expected)
          << shape.rows << " x " << shape.cols << ", head_dim " << shape.head_dim << ", slices of " << slice;
    }
  }
}

TEST(PageImage, OfRandomWeightsIsTheHosts) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}}) {
    for (const Shape& shape : kPackedShapes) {
      const ImageOnGpu image(shape);
      pack_random(weight_of(shape), weight_of(shape).name, {0, 0, shape.cols}, seed, image.data(), nullptr);
      EXPECT_EQ(image.download(), expected_image(shape, random_matrix(shape, seed)))
          << shape.rows << " x " << shape.cols << ", head_dim " << shape.head_dim << ", seed " << seed;
    }
  }
}

TEST(FillRandom, IsTheHosts) {
  constexpr size_t kCount = 100'000;
  const DeviceBuffer on_gpu(kCount * sizeof(uint16_t));
  fill_random(reinterpret_cast<uint16_t*>(on_gpu.data()), kCount, 99, 0x1p-8F, nullptr);
  std::vector<uint16_t> found(kCount), expected(kCount);
  SERVAL_CUDA_CHECK(cudaMemcpy(found.data(), on_gpu.data(), on_gpu.size(), cudaMemcpyDeviceToHost));
  fill_random_matrix(expected, 99, 0, 0x1p-8F);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace serval
