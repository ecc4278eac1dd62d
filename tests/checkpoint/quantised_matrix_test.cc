// Compares with the packages that write quantised checkpoints: tests/data/quantised, made by
// tools/quantised_goldens.py.
#include "models/checkpoint/quantised/quantised_matrix.h"

#include <cmath>
#include <random>
#include <set>
#include <string>

#include "models/checkpoint/quantised/matrix_reader.h"
#include "tests/checkpoint/test_files.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

TEST(E4M3, HasTheValuesOfItsDefinition) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    if (exponent == 15 && mantissa == 7) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    EXPECT_EQ(std::abs(value), magnitude) << code;
  }
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0F);
  EXPECT_EQ(bits_of(e4m3_to_float(0x80)), bits_of(-0.0F));
}

TEST(E8M0, HasTheValuesOfItsDefinition) {
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(e8m0_to_float(static_cast<uint8_t>(code)), std::ldexp(1.0, code - 127)) << code;
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

// A folder of tests/data/quantised.
class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const {
    return std::filesystem::path(SERVAL_TEST_DATA) / "quantised" / GetParam();
  }

  struct Expected {
    std::string module;
    QuantisedMatrix matrix;
    std::vector<float> values;
  };
  std::vector<Expected> matrices() const {
    const Quantisation quantisation = read_quantisation(folder()).value();
    std::vector<Expected> all;
    for (const auto& [module, values] : values_.tensors()) {
      const WeightSpec spec{.name = module + ".weight", .rows = values.shape[0], .cols = values.shape[1]};
      std::optional<FoundMatrix> found = find_quantised_matrix(checkpoint_, quantisation, spec, spec.name);
      if (!found) {
        ADD_FAILURE() << module << " is not quantised";
        continue;
      }
      std::vector<float> expected(values.bytes.size() / sizeof(float));
      std::memcpy(expected.data(), values.bytes.data(), values.bytes.size());
      all.push_back({module, std::move(found->matrix), std::move(expected)});
    }
    EXPECT_FALSE(all.empty());
    return all;
  }

  const Checkpoint checkpoint_ = Checkpoint::open(folder());
  const SafetensorsFile values_{folder() / "values.safetensors"};
};

TEST_P(Golden, EqualsThePackageBitForBit) {
  for (const Expected& expected : matrices()) {
    const QuantisedMatrix& matrix = expected.matrix;
    std::vector<float> read(expected.values.size());
    matrix.read(0, matrix.rows, 0, matrix.cols, read.data());
    for (size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(bits_of(read[i]), bits_of(expected.values[i])) << expected.module << " element " << i;
  }
}

TEST_P(Golden, AnyPartIsReadAndRoundedToBf16) {
  std::mt19937 random(1);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  for (const Expected& expected : matrices()) {
    const QuantisedMatrix& matrix = expected.matrix;
    const auto value = [&](int64_t row, int64_t col) {
      return float_to_bf16(expected.values[static_cast<size_t>(row * matrix.cols + col)]);
    };
    for (int round = 0; round < 50; ++round) {
      const int64_t row = below(matrix.rows), rows = 1 + below(matrix.rows - row);
      const int64_t col = below(matrix.cols), cols = 1 + below(matrix.cols - col);
      std::vector<uint16_t> part(static_cast<size_t>(rows * cols));
      matrix.read(row, rows, col, cols, part.data());
      for (int64_t i = 0; i < rows * cols; ++i)
        ASSERT_EQ(part[static_cast<size_t>(i)], value(row + i / cols, col + i % cols)) << expected.module;
      const int64_t elements = matrix.rows * matrix.cols;
      const int64_t first = below(elements), count = 1 + below(elements - first);
      std::vector<uint16_t> run(static_cast<size_t>(count));
      matrix.read_elements(first, count, run.data());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(run[static_cast<size_t>(i)], value((first + i) / matrix.cols, (first + i) % matrix.cols))
            << expected.module;
    }
  }
}

// What kernels will read: codes, scales and zero points as they are stored.
TEST_P(Golden, CodesScalesAndZeroPointsMakeTheValues) {
  for (const Expected& expected : matrices()) {
    const QuantisedMatrix& matrix = expected.matrix;
    for (int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
      const int64_t row = i / matrix.cols, col = i % matrix.cols;
      const int64_t row_block = row / matrix.block_rows, col_block = matrix.col_block(col);
      const uint8_t code = matrix.codes.at(row, col);
      const int zero = matrix.zero_point(row_block, col_block);
      const float number = matrix.type == CodeType::kE4M3 ? e4m3_to_float(code)
                           : matrix.type == CodeType::kInt8
                               ? static_cast<float>(static_cast<int8_t>(code) - zero)
                               : static_cast<float>(code - zero);
      ASSERT_EQ(bits_of(number * matrix.scale(row_block, col_block)),
                bits_of(expected.values[static_cast<size_t>(i)]))
          << expected.module << " element " << i;
    }
  }
}

// Rows that are kept in e4m3: codes, and one scale.
TEST_P(Golden, RowsOfE4M3MakeTheValues) {
  const std::set<std::string> kept = {"ct_float", "ct_naive", "fbgemm_fp8", "fp8_scales", "modelopt"};
  bool some = false;
  for (const Expected& expected : matrices()) {
    const QuantisedMatrix& matrix = expected.matrix;
    if (!matrix.has_e4m3_rows()) continue;
    some = true;
    const auto cols = static_cast<uint64_t>(matrix.cols);
    std::vector<uint8_t> rows(static_cast<size_t>(matrix.rows) * e4m3_rows::row_bytes(cols));
    matrix.read_e4m3_rows(0, matrix.rows, rows.data());
    for (size_t i = 0; i < expected.values.size(); ++i) {
      const uint8_t* row = rows.data() + i / cols * e4m3_rows::row_bytes(cols);
      ASSERT_EQ(bits_of(e4m3_to_float(row[i % cols]) * e4m3_rows::scale_of(row, cols)),
                bits_of(expected.values[i]))
          << expected.module << " element " << i;
    }
  }
  EXPECT_EQ(some, kept.contains(GetParam()));
}

// Rows that are kept in 4 bits have the package's values if both are rounded to fp16.
TEST_P(Golden, RowsOfInt4MakeTheValues) {
  const std::set<std::string> kept = {"awq",        "awq_rows", "ct_pack4", "gptq4", "gptq4_gptqmodel",
                                      "gptq4_rows", "gptq4_v2"};
  bool some = false;
  for (const Expected& expected : matrices()) {
    const QuantisedMatrix& matrix = expected.matrix;
    const DType dtype = matrix.int4_type();
    EXPECT_EQ(matrix.keeps_codes_in(dtype), is_int4(dtype));
    if (!is_int4(dtype)) continue;
    some = true;
    const auto cols = static_cast<uint64_t>(matrix.cols);
    for (const DType smaller : {dtype, DType::kInt4G32}) {
      std::vector<uint8_t> row(row_bytes_of(smaller, cols));
      for (int64_t r = 0; r < matrix.rows; ++r) {
        // 2^-128 beside 0.75 in bf16.
        const bool beyond_fp16 =
            r == 0 && matrix.scales.type == StoredType::kBF16 && matrix.block_cols < matrix.cols;
        if (beyond_fp16) {
          EXPECT_THAT(error_of([&] { matrix.read_int4_rows(smaller, r, 1, row.data()); }),
                      testing::HasSubstr("weight_scale\": row 0: fp16 cannot hold its scales"));
          continue;
        }
        matrix.read_int4_rows(smaller, r, 1, row.data());
        const float of_row = int4_rows::scale_of(row.data(), cols, group_of(smaller));
        for (uint64_t col = 0; col < cols; ++col) {
          const float expected_value = expected.values[static_cast<uint64_t>(r) * cols + col];
          const auto in_fp16 = [&](float value) { return fp16_to_float(float_to_fp16(value / of_row)); };
          ASSERT_EQ(bits_of(in_fp16(value_in_row(smaller, row.data(), cols, col))),
                    bits_of(in_fp16(expected_value)))
              << expected.module << " row " << r << " column " << col;
        }
      }
    }
  }
  EXPECT_EQ(some, kept.contains(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Packages, Golden,
                         testing::Values("awq", "awq_rows", "ct_float", "ct_int", "ct_naive", "ct_pack4",
                                         "ct_pack8", "fbgemm_fp8", "fp8_blocks", "fp8_scales", "gptq4",
                                         "gptq4_act_order", "gptq4_gptqmodel", "gptq4_rows", "gptq4_v2",
                                         "gptq8", "gptq8_v2_act_order", "modelopt"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace serval
