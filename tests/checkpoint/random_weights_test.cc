#include "models/checkpoint/random_weights.h"

#include <cmath>
#include <fstream>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "vm/base/bf16.h"

namespace serval {
namespace {

static_assert(random_matrix_scale(1) == 0x1p-7F && random_matrix_scale(4) == 0x1p-8F);
static_assert(random_matrix_scale(2048) == 0x1p-13F && random_matrix_scale(4096) == 0x1p-13F);
static_assert(random_matrix_scale(4097) == 0x1p-14F);

TEST(RandomWeights, EqualThoseOfTheNumpyScript) {
  std::ifstream file(SERVAL_TEST_DATA "/checkpoint/random_weights.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_FALSE(goldens["cases"].empty());
  for (const nlohmann::json& golden : goldens["cases"]) {
    const auto name = golden["name"].get<std::string>();
    const uint64_t key = random_tensor_key(name, golden["seed"].get<uint64_t>());
    const float scale = random_matrix_scale(golden["columns"].get<int64_t>());
    uint64_t index = golden["first"].get<uint64_t>();
    for (const uint16_t expected : golden["bf16"].get<std::vector<uint16_t>>()) {
      const bool norm = name.ends_with("norm.weight");
      EXPECT_EQ(norm ? random_norm_element(key, index) : random_matrix_element(key, index, scale), expected)
          << name << " element " << index;
      ++index;
    }
  }
}

TEST(RandomWeights, FillingEqualsElementByElement) {
  constexpr uint64_t kFirst = 1 << 20;
  const uint64_t key = random_tensor_key("lm_head.weight", 5);
  const float scale = random_matrix_scale(96);
  for (const size_t count : {0, 1, 7, 8, 9, 1000}) {
    std::vector<uint16_t> matrix(count);
    std::vector<uint16_t> norm(count);
    fill_random_matrix(matrix, key, kFirst, scale);
    fill_random_norm(norm, key, kFirst);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(matrix[i], random_matrix_element(key, kFirst + i, scale));
      EXPECT_EQ(norm[i], random_norm_element(key, kFirst + i));
    }
  }
}

TEST(RandomWeights, EveryByteIsExactInBf16) {
  const float scale = random_matrix_scale(2048);
  for (int byte = -128; byte < 128; ++byte) {
    EXPECT_EQ(bf16_to_float(random_matrix_value(byte, scale)), static_cast<float>(2 * byte + 1) * scale);
    EXPECT_EQ(bf16_to_float(random_norm_value(byte)), 1.0 + std::floor(byte / 8.0) / 128.0);
  }
}

TEST(RandomWeights, AreSpreadEvenlyAboutZero) {
  constexpr size_t kCount = 1 << 20;
  std::vector<uint16_t> values(kCount);
  fill_random_matrix(values, random_tensor_key("model.embed_tokens.weight", 1), 0, 1.0F);
  double sum = 0;
  double squares = 0;
  for (const uint16_t value : values) {
    sum += bf16_to_float(value);
    squares += double{bf16_to_float(value)} * bf16_to_float(value);
  }
  EXPECT_NEAR(sum / kCount, 0, 1);
  EXPECT_NEAR(squares / kCount, (256.0 * 256.0 - 1) / 3, 100);
}

TEST(RandomWeights, DependOnSeedNameAndIndex) {
  const uint64_t key = random_tensor_key("a", 1);
  EXPECT_NE(key, random_tensor_key("a", 2));
  EXPECT_NE(key, random_tensor_key("b", 1));
  EXPECT_NE(random_word(key, 0), random_word(key, 1));
}

}  // namespace
}  // namespace serval
