// Compares with the `gguf` Python package: tests/data/gguf/types.gguf, made by tools/gguf_goldens.py.
#include "models/gguf/dequantise.h"

#include <cstring>

#include "tests/gguf/gguf_bytes.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

class Dequantised : public testing::TestWithParam<const char*> {
 protected:
  const GgufFile file_{std::string(SERVAL_TEST_DATA) + "/gguf/types.gguf"};
  const GgufTensor& tensor_ = file_.tensors().at(GetParam());
  const size_t elements_ = static_cast<size_t>(tensor_.shape[0] * tensor_.shape[1]);

  std::vector<float> expected() const {
    std::vector<float> values(elements_);
    const auto bytes = file_.tensors().at(std::string(GetParam()) + ".values").bytes;
    EXPECT_EQ(bytes.size(), elements_ * sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

TEST_P(Dequantised, EqualsTheGgufPackageBitForBit) {
  ASSERT_EQ(tensor_.type->name, GetParam());
  std::vector<float> values(elements_);
  tensor_.type->decode(tensor_.bytes.data(), elements_ / tensor_.type->block_elements, values.data());
  const std::vector<float> expected = this->expected();
  for (size_t i = 0; i < elements_; ++i)
    ASSERT_EQ(__builtin_bit_cast(uint32_t, values[i]), __builtin_bit_cast(uint32_t, expected[i])) << i;
}

TEST_P(Dequantised, IsRoundedToBf16FromAnyElementOn) {
  const std::vector<float> expected = this->expected();
  for (const size_t first :
       {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{255}, size_t{500}, elements_ - 1}) {
    for (const size_t count : {size_t{1}, size_t{33}, size_t{256}, size_t{700}, elements_}) {
      std::vector<uint16_t> bf16(std::min(count, elements_ - first));
      read_ggml_elements(*tensor_.type, tensor_.bytes, first, bf16);
      for (size_t i = 0; i < bf16.size(); ++i)
        ASSERT_EQ(bf16[i], float_to_bf16(expected[first + i])) << first + i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantised,
                         testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K",
                                         "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GgufOfPython, HasTheFieldsThatItWrote) {
  const GgufFile file(std::string(SERVAL_TEST_DATA) + "/gguf/types.gguf");
  EXPECT_EQ(file.fields().text("general.architecture"), "none");
  EXPECT_THAT(file.fields().texts("words"), testing::ElementsAre("", "é", "three"));
  EXPECT_THAT(file.fields().integers("numbers"), testing::ElementsAre(1, -2, 3));
}

}  // namespace
}  // namespace serval
