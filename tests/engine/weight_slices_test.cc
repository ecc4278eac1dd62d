// Weights on the way to several GPUs: each GPU's share, and the order. Needs no GPU.
#include "engine/device/weight_slices.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"
#include "vm/base/error.h"

namespace serval {
namespace {

constexpr uint32_t kRanks = 4;
constexpr int64_t kRowsOfSlice = 8;

// Element i of each tensor is i.
class Counting final : public WeightSource {
 public:
  explicit Counting(const Model& model) : WeightSource(model) {}
  std::string name() const override { return "counting"; }
  void read(size_t, int64_t first, std::span<uint16_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint16_t>(static_cast<size_t>(first) + i);
  }
  void require_finite(size_t tensor, int64_t first, std::span<const uint16_t> bf16) const override {
    if (static_cast<int64_t>(tensor) == bad_tensor && first <= bad_element &&
        bad_element < first + static_cast<int64_t>(bf16.size()))
      throw Error(ErrorKind::kRuntime, "element " + std::to_string(bad_element));
  }

  int64_t bad_tensor = -1, bad_element = 0;
};

class WeightSlices : public ::testing::Test {
 protected:
  WeightSlices() {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      for (const WeightSpec& spec : model_.weights()) {
        Tensor tensor;
        tensor.name = spec.name;
        tensor.device = rank;
        tensors_.push_back(tensor);
      }
    }
    for (const Tensor& tensor : tensors_) {
      const WeightSpec& spec = source_.specs()[source_.index_of(tensor.name)];
      weights_.push_back({&tensor, part_of_rank(spec, tensor.device, kRanks), spec.cols, spec.source_name()});
    }
    slices_ = cut_into_slices(weights_, std::vector<int64_t>(weights_.size(), kRowsOfSlice));
  }

  std::vector<uint16_t> read(const WeightPiece& slice) const {
    const RankWeight& weight = weights_[slice.tensor];
    std::vector<uint16_t> out(static_cast<size_t>(elements_of_slice(weight, slice)));
    read_slice(source_, source_.index_of(weight.tensor->name), weight, slice, out);
    return out;
  }

  const LlamaConfig model_ = testing::tiny_shared_config();
  Counting source_{model_};
  std::vector<Tensor> tensors_;
  std::vector<RankWeight> weights_;
  std::vector<WeightPiece> slices_;
};

TEST_F(WeightSlices, CoverEachPartOnce) {
  std::vector<int64_t> next_row;
  for (const RankWeight& weight : weights_) next_row.push_back(weight.part.first_row);
  for (const WeightPiece& slice : slices_) {
    const RankWeight& weight = weights_[slice.tensor];
    EXPECT_EQ(slice.first, next_row[slice.tensor] * weight.matrix_cols);
    EXPECT_LE(slice.count, kRowsOfSlice * weight.matrix_cols);
    next_row[slice.tensor] += slice.count / weight.matrix_cols;
  }
  for (size_t i = 0; i < weights_.size(); ++i)
    EXPECT_EQ(next_row[i], weights_[i].part.first_row + weights_[i].part.rows);
}

// Among any `kRanks` consecutive slices, each goes to a different rank.
TEST_F(WeightSlices, GoToAllGpusInTurn) {
  ASSERT_GT(slices_.size(), 10 * kRanks);
  for (size_t begin = 0; begin + kRanks <= slices_.size(); begin += kRanks) {
    std::set<uint32_t> ranks;
    for (size_t i = begin; i < begin + kRanks; ++i) ranks.insert(weights_[slices_[i].tensor].tensor->device);
    EXPECT_EQ(ranks.size(), kRanks) << begin;
  }
}

TEST_F(WeightSlices, HaveTheColumnsOfTheirRank) {
  size_t of_columns = 0;
  for (const WeightPiece& slice : slices_) {
    const RankWeight& weight = weights_[slice.tensor];
    of_columns += weight.has_all_columns() ? 0 : 1;
    const std::vector<uint16_t> elements = read(slice);
    const int64_t first_row = slice.first / weight.matrix_cols;
    ASSERT_EQ(static_cast<int64_t>(elements.size()) % weight.part.cols, 0);
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t row = first_row + static_cast<int64_t>(i) / weight.part.cols;
      const int64_t col = weight.part.first_col + static_cast<int64_t>(i) % weight.part.cols;
      ASSERT_EQ(elements[i], static_cast<uint16_t>(row * weight.matrix_cols + col)) << weight.tensor->name;
    }
  }
  EXPECT_GT(of_columns, 0U);
}

// Each element is checked by a rank that has it.
TEST_F(WeightSlices, NameTheElementThatIsNotFinite) {
  const auto tensor = source_.index_of("model.layers.1.mlp.down_proj.weight");
  source_.bad_tensor = static_cast<int64_t>(tensor);
  const int64_t cols = source_.specs()[tensor].cols;
  source_.bad_element = 3 * cols + cols / kRanks;  // the first column of the second rank's
  std::set<uint32_t> found_by;
  for (const WeightPiece& slice : slices_) {
    try {
      read(slice);
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), ("element " + std::to_string(source_.bad_element)).c_str());
      found_by.insert(weights_[slice.tensor].tensor->device);
    }
  }
  EXPECT_EQ(found_by, std::set<uint32_t>{1});
}

}  // namespace
}  // namespace serval
