// A checkpoint's weights on the GPU: independent of the file's type, and equal to the host's.
#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/device/weight_kernels.h"
#include "engine/torch/teacher_forcing.h"
#include "models/checkpoint/quantise_rows.h"
#include "models/checkpoint/weights.h"
#include "tests/checkpoint/test_files.h"
#include "tests/device/packed_shape.h"
#include "vm/base/bf16.h"
#include "vm/device/cuda_resources.h"
#include "vm/layout/e4m3_image.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/int4_image.h"
#include "vm/layout/weight_rows.h"
#include "vm/stored_bytes.h"

namespace serval {
namespace {

constexpr uint32_t kContext = 64;

std::vector<int32_t> tokens() {
  std::vector<int32_t> out;
  for (int32_t t = 0; t < 24; ++t) out.push_back(7 * t % 24);
  return out;
}

std::vector<float> device_logits(const TempDir& dir, const LlamaConfig& config,
                                 const LoadProgress& progress = {}) {
  BackendOptions options;
  options.limits.context = kContext;
  const auto weights = open_checkpoint_weights(dir.path(), config);
  return teacher_force(*make_device_backend(config, *weights, options, progress), tokens());
}

std::vector<float> host_logits(const TempDir& dir, const LlamaConfig& config) {
  BackendOptions options;
  options.limits.context = kContext;
  options.threads = 2;
  const auto weights = std::make_shared<const ModelWeights>(ModelWeights::load(dir.path(), config));
  return teacher_force(*make_host_backend(config, weights, options), tokens());
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 0.02 * std::fmax(1, std::abs(expected[i]))) << i;
}

TEST(WeightUpload, EveryTypeComesToTheSameValues) {
  for (const bool tied : {true, false}) {
    std::vector<std::vector<float>> logits;
    for (const char* dtype : {"BF16", "F16", "F32"}) {
      const TempDir dir;
      dir.write("model.safetensors", safetensors_file(tiny_tensors(dtype, tied)));
      logits.push_back(device_logits(dir, tiny_config(tied)));
      if (logits.size() == 1) expect_near(logits[0], host_logits(dir, tiny_config(tied)));
    }
    EXPECT_EQ(logits[1], logits[0]);
    EXPECT_EQ(logits[2], logits[0]);
  }
}

// The tiny model with matrices of the layer in e4m3, with a scale for each row.
void write_e4m3(const TempDir& dir) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16"), scales;
  for (TestTensor& tensor : tensors) {
    if (!tensor.name.ends_with("_proj.weight")) continue;
    const int64_t rows = tensor.shape[0], elements = rows * tensor.shape[1];
    tensor.dtype = "F8_E4M3";
    tensor.data.clear();
    for (int64_t i = 0; i < elements; ++i) tensor.data += static_cast<char>(37 * i % 127);
    std::vector<float> values;
    for (int64_t row = 0; row < rows; ++row)
      values.push_back((row % 2 == 0 ? 1e-3F : -1e-3F) / static_cast<float>(3 + row % 11));
    scales.push_back({tensor.name + "_scale", "F32", {rows, 1}, bytes_of(values)});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  std::string config = tiny_config_json(true);
  config.replace(config.rfind('}'), 1, R"(, "quantization_config": {"quant_method": "fbgemm_fp8"}})");
  dir.write("config.json", config);
  dir.write("model.safetensors", safetensors_file(tensors));
}

TEST(WeightUpload, CodesOfACheckpointAreThoseOfTheHost) {
  const TempDir dir;
  write_e4m3(dir);
  LlamaConfig config = tiny_config();
  config.formats.layers = DType::kE4M3;
  ASSERT_LT(open_checkpoint_weights(dir.path(), config)->total_bytes(), tiny_config().weight_bytes());
  expect_near(device_logits(dir, config), host_logits(dir, config));
}

using testing::kPackedShapes;
using testing::PackedShape;

// The image of rows as vm/layout/e4m3_rows.h describes, byte by byte. Elements beyond the matrix are zeros,
// rows beyond it have scale 1.
std::vector<std::byte> expected_image(const PackedShape& shape, const std::vector<uint8_t>& rows) {
  const auto cols = static_cast<uint32_t>(shape.cols);
  std::vector<std::byte> image(e4m3_image::bytes(shape.rows, cols));
  const uint64_t end = (shape.rows + kUnitRows - 1) / kUnitRows * kUnitRows;
  for (uint64_t r = 0; r < end; ++r) {
    const auto unit = static_cast<uint32_t>(r / kUnitRows), of_unit = static_cast<uint32_t>(r % kUnitRows);
    const uint64_t in_matrix = testing::matrix_row(shape, r);
    const bool exists = in_matrix < shape.rows;
    const uint8_t* row = rows.data() + (exists ? in_matrix : 0) * e4m3_rows::row_bytes(cols);
    const float scale = exists ? e4m3_rows::scale_of(row, cols) : 1;
    for (uint32_t page = 0; page < e4m3_image::pages(page_image::panels(cols)); ++page)
      std::memcpy(&image.at(e4m3_image::scale_offset(cols, unit, page, of_unit)), &scale, sizeof scale);
    for (uint32_t col = 0; exists && col < cols; ++col) {
      const uint32_t panel = col / page_image::kPanelCols, half = page_image::half_cols(cols, panel);
      image.at(e4m3_image::panel_offset(cols, unit, panel) +
               e4m3_image::element_offset(half, of_unit, col % page_image::kPanelCols)) = std::byte{row[col]};
    }
  }
  return image;
}

// Packs like upload_weights(), in slices of `slice` times the least number of rows: `pack` gets a slice's
// first row, its number of rows, its bytes on the GPU, and the image.
template <class Pack>
std::vector<std::byte> pack_in_slices(const Tensor& weight, const void* matrix, size_t row_bytes,
                                      uint64_t slice, const Pack& pack) {
  const DeviceBuffer image(stored_bytes(weight));
  SERVAL_CUDA_CHECK(cudaMemset(image.data(), 0x5A, image.size()));
  const uint64_t step = slice * slice_rows(weight);
  for (uint64_t first = 0; first < weight.rows; first += step) {
    const uint64_t rows = std::min(step, weight.rows - first);
    const DeviceBuffer staged(rows * row_bytes);
    SERVAL_CUDA_CHECK(cudaMemcpy(staged.data(), static_cast<const std::byte*>(matrix) + first * row_bytes,
                                 staged.size(), cudaMemcpyHostToDevice));
    pack(first, rows, staged.data(), image.data());
  }
  std::vector<std::byte> out(image.size());
  SERVAL_CUDA_CHECK(cudaMemcpy(out.data(), image.data(), out.size(), cudaMemcpyDeviceToHost));
  return out;
}

// All codes, NaN among them, and scales of any bits: nothing is computed.
TEST(PackE4M3, StoredRowsKeepTheirBits) {
  std::mt19937 random(3);
  for (const PackedShape& shape : kPackedShapes) {
    const Tensor weight = testing::weight_of(shape, DType::kE4M3);
    const size_t row_bytes = e4m3_rows::row_bytes(shape.cols);
    std::vector<uint8_t> rows(shape.rows * row_bytes);
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
    const std::vector<std::byte> expected = expected_image(shape, rows);
    for (const uint64_t slice : {1U, 3U, 1000U}) {
      const auto pack = [&](uint64_t first, uint64_t count, const std::byte* from, std::byte* image) {
        pack_code_rows(weight, first, count, reinterpret_cast<const uint8_t*>(from), image, nullptr);
      };
      EXPECT_EQ(pack_in_slices(weight, rows.data(), row_bytes, slice, pack), expected)
          << shape.rows << " × " << shape.cols << ", slices of " << slice;
    }
  }
}

TEST(PackE4M3, Bf16RowsAreRoundedAsOnTheHost) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 0.05F);
  for (const PackedShape& shape : kPackedShapes) {
    const Tensor weight = testing::weight_of(shape, DType::kE4M3);
    std::vector<uint16_t> matrix(shape.rows * shape.cols);
    for (uint16_t& element : matrix) element = float_to_bf16(normal(random));
    std::fill_n(matrix.begin(), shape.cols, uint16_t{0});  // a row of zeros
    std::vector<uint8_t> rows(shape.rows * e4m3_rows::row_bytes(shape.cols));
    quantise_rows(DType::kE4M3, matrix.data(), static_cast<int64_t>(shape.rows),
                  static_cast<int64_t>(shape.cols), rows.data());
    const auto pack = [&](uint64_t first, uint64_t count, const std::byte* from, std::byte* image) {
      pack_rows(weight, first, count, reinterpret_cast<const uint16_t*>(from), image, nullptr);
    };
    EXPECT_EQ(pack_in_slices(weight, matrix.data(), shape.cols * sizeof(uint16_t), 3, pack),
              expected_image(shape, rows))
        << shape.rows << " × " << shape.cols;
  }
}

// The image of rows as vm/layout/int4_rows.h describes. Elements beyond the matrix are zeros, with words of a
// zero scale; rows beyond it have scale 1.
std::vector<std::byte> expected_int4_image(const PackedShape& shape, uint32_t group,
                                           const std::vector<uint8_t>& rows) {
  const auto cols = static_cast<uint32_t>(shape.cols);
  std::vector<std::byte> image(int4_image::bytes(shape.rows, cols, group));
  const auto put = [&](uint64_t at, auto value) { std::memcpy(&image.at(at), &value, sizeof value); };
  const uint64_t end = (shape.rows + kUnitRows - 1) / kUnitRows * kUnitRows;
  for (uint64_t r = 0; r < end; ++r) {
    const auto unit = static_cast<uint32_t>(r / kUnitRows), of_unit = static_cast<uint32_t>(r % kUnitRows);
    const uint64_t in_matrix = testing::matrix_row(shape, r);
    const bool exists = in_matrix < shape.rows;
    const uint8_t* row = rows.data() + (exists ? in_matrix : 0) * int4_rows::row_bytes(cols, group);
    const auto part_at = [&](uint32_t part) { return int4_image::part_offset(cols, group, unit, part); };
    for (uint32_t panel = 0; panel < page_image::panels(cols); ++panel) {
      const uint32_t part = panel / int4_image::kPanelsOfPart, half = page_image::half_cols(cols, panel);
      put(part_at(part) + int4_image::scale_in_part(cols, group, part, of_unit),
          exists ? int4_rows::scale_of(row, cols, group) : 1.0F);
      for (uint32_t n = 0; n < int4_image::word_bytes_of_half(half, group) / int4_image::kGroupBytes; ++n) {
        const uint32_t index = panel * (page_image::kPanelCols / group) + n;
        put(part_at(part) + int4_image::word_in_part(cols, group, panel, n, of_unit),
            exists && index * group < cols ? int4_rows::word_of(row, cols, index)
                                           : int4::word_with_zero_point(0, 0));
      }
    }
    for (uint32_t col = 0; exists && col < cols; ++col) {
      const uint32_t panel = col / page_image::kPanelCols;
      const int4_image::Place place =
          int4_image::place(page_image::half_cols(cols, panel), of_unit, col % page_image::kPanelCols);
      const uint64_t at =
          part_at(panel / int4_image::kPanelsOfPart) + int4_image::panel_in_part(panel) + place.word;
      uint32_t word = 0;
      std::memcpy(&word, &image.at(at), sizeof word);
      put(at, word | int4_rows::code_of(row, col) << place.shift);
    }
  }
  return image;
}

// Columns that are whole groups.
std::vector<PackedShape> shapes_of(uint32_t group) {
  std::vector<PackedShape> shapes(std::begin(kPackedShapes), std::end(kPackedShapes));
  for (PackedShape& shape : shapes) shape.cols = (shape.cols + group - 1) / group * group;
  return shapes;
}

constexpr DType kInt4Types[] = {DType::kInt4G32, DType::kInt4G64, DType::kInt4G128};

// Codes, words and scales of any bits: nothing is computed.
TEST(PackInt4, StoredRowsKeepTheirBits) {
  std::mt19937 random(5);
  for (const DType dtype : kInt4Types) {
    for (const PackedShape& shape : shapes_of(group_of(dtype))) {
      const Tensor weight = testing::weight_of(shape, dtype);
      const size_t row_bytes = row_bytes_of(dtype, shape.cols);
      std::vector<uint8_t> rows(shape.rows * row_bytes);
      for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
      const std::vector<std::byte> expected = expected_int4_image(shape, group_of(dtype), rows);
      for (const uint64_t slice : {1U, 3U, 1000U}) {
        const auto pack = [&](uint64_t first, uint64_t count, const std::byte* from, std::byte* image) {
          pack_code_rows(weight, first, count, reinterpret_cast<const uint8_t*>(from), image, nullptr);
        };
        EXPECT_EQ(pack_in_slices(weight, rows.data(), row_bytes, slice, pack), expected)
            << name_of(dtype) << ": " << shape.rows << " × " << shape.cols << ", slices of " << slice;
      }
    }
  }
}

TEST(PackInt4, Bf16RowsAreRoundedAsOnTheHost) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0, 0.05F);
  for (const DType dtype : kInt4Types) {
    for (const PackedShape& shape : shapes_of(group_of(dtype))) {
      const Tensor weight = testing::weight_of(shape, dtype);
      std::vector<uint16_t> matrix(shape.rows * shape.cols);
      for (uint16_t& element : matrix) element = float_to_bf16(normal(random));
      std::fill_n(matrix.begin(), shape.cols, uint16_t{0});  // a row of zeros
      std::vector<uint8_t> rows(shape.rows * row_bytes_of(dtype, shape.cols));
      quantise_rows(dtype, matrix.data(), static_cast<int64_t>(shape.rows), static_cast<int64_t>(shape.cols),
                    rows.data());
      const auto pack = [&](uint64_t first, uint64_t count, const std::byte* from, std::byte* image) {
        pack_rows(weight, first, count, reinterpret_cast<const uint16_t*>(from), image, nullptr);
      };
      EXPECT_EQ(pack_in_slices(weight, matrix.data(), shape.cols * sizeof(uint16_t), 3, pack),
                expected_int4_image(shape, group_of(dtype), rows))
          << name_of(dtype) << ": " << shape.rows << " × " << shape.cols;
    }
  }
}

TEST(WeightUpload, ReportsProgressUpToTheLastByte) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file(tiny_tensors("BF16")));
  int64_t last = -1;
  device_logits(dir, tiny_config(), [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, tiny_config().weight_bytes());
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, tiny_config().weight_bytes());
}

TEST(WeightUpload, WhatProgressThrowsEndsIt) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file(tiny_tensors("BF16")));
  EXPECT_THROW(
      device_logits(dir, tiny_config(), [](int64_t, int64_t) { throw std::runtime_error("enough"); }),
      std::runtime_error);
}

}  // namespace
}  // namespace serval
