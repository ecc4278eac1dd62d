// Tensors in memory that replace weights: they are read as a checkpoint's are, and refused as those.
#include "models/checkpoint/tensor_weights.h"

#include <limits>
#include <vector>

#include "fmt/format.h"

#include "models/llama/graph.h"
#include "tests/checkpoint/test_files.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

using testing::HasSubstr;

StoredType type_named(const std::string& name) {
  return name == "BF16" ? StoredType::kBF16 : name == "F16" ? StoredType::kF16 : StoredType::kF32;
}

TensorView view_of(const TestTensor& tensor) {
  return {tensor.name, type_named(tensor.dtype), tensor.shape, std::as_bytes(std::span(tensor.data))};
}

std::vector<TensorView> views_of(const std::vector<TestTensor>& tensors) {
  std::vector<TensorView> views;
  for (const TestTensor& tensor : tensors) views.push_back(view_of(tensor));
  return views;
}

std::string refusal_of(const std::vector<TensorView>& views, ErrorKind kind = ErrorKind::kUsage) {
  return error_of([&] { make_tensor_weights(tiny_config(), views); }, kind);
}

TEST(TensorWeights, HaveTheValuesThatACheckpointHas) {
  for (const char* type : {"BF16", "F16", "F32"}) {
    const std::vector<TestTensor> tensors = tiny_tensors(type);
    const std::vector<TensorView> views = views_of(tensors);
    const auto weights = make_tensor_weights(tiny_config(), views);
    for (size_t t = 0; t < weights->specs().size(); ++t) {
      const WeightSpec& spec = weights->specs()[t];
      ASSERT_TRUE(weights->has(t));
      std::vector<uint16_t> bf16(static_cast<size_t>(spec.elements()));
      weights->read(t, 0, bf16);
      for (size_t i = 0; i < bf16.size(); ++i)
        ASSERT_EQ(bf16_to_float(bf16[i]), tiny_value(spec.name, i)) << spec.name;
    }
  }
}

TEST(TensorWeights, HaveOnlyWhatIsGiven) {
  const std::vector<TestTensor> tensors = tiny_tensors("F32");
  const std::vector<TensorView> one = {view_of(tensors[2])};
  const auto weights = make_tensor_weights(tiny_config(), one);
  for (size_t t = 0; t < weights->specs().size(); ++t)
    EXPECT_EQ(weights->has(t), weights->specs()[t].name == tensors[2].name);
}

TEST(TensorWeights, AreRefusedForNamesShapesAndTypesInOneLine) {
  const std::vector<float> values(64, 1);
  TensorView norm{llama_tensor::kFinalNorm, StoredType::kF32, {64}, std::as_bytes(std::span(values))};
  TensorView unknown = norm;
  unknown.name = "model.norm.bias";
  EXPECT_EQ(refusal_of({unknown}),
            "weights: tensor \"model.norm.bias\": the model has no tensor of this name");
  TensorView reshaped = norm;
  reshaped.shape = {1, 64};
  EXPECT_EQ(refusal_of({reshaped}), "weights: tensor \"model.norm.weight\": shape [1, 64]; expected [64]");
  TensorView other = norm;
  other.dtype = StoredType::kF64;
  EXPECT_EQ(refusal_of({other}),
            "weights: tensor \"model.norm.weight\": type F64; supported: BF16, F16 and F32");
  EXPECT_EQ(refusal_of({norm, norm}), "weights: tensor \"model.norm.weight\": given twice");
}

TEST(TensorWeights, AreRefusedIfTheyAreNotFiniteUnlessThatIsAllowed) {
  std::vector<float> values(64, 1);
  values[5] = std::numeric_limits<float>::max();
  const std::vector<TensorView> norm = {
      {llama_tensor::kFinalNorm, StoredType::kF32, {64}, std::as_bytes(std::span(values))}};
  EXPECT_THAT(refusal_of(norm, ErrorKind::kRuntime),
              HasSubstr("tensor \"model.norm.weight\": element [5] is 3.40"));
  EXPECT_NE(make_tensor_weights(tiny_config(), norm, NotFinite::kLoaded), nullptr);
}

TEST(TensorWeights, OfATiedModelHaveOneMatrixUnderBothNames) {
  std::vector<float> values(24 * 64, 1);
  const TensorView head{llama_tensor::kLmHead, StoredType::kF32, {24, 64}, std::as_bytes(std::span(values))};
  TensorView embedding = head;
  embedding.name = llama_tensor::kEmbedding;
  for (const std::vector<TensorView>& views : {std::vector{head}, std::vector{embedding, head}}) {
    const auto weights = make_tensor_weights(tiny_config(), views);
    EXPECT_TRUE(weights->has(weights->index_of(llama_tensor::kEmbedding)));
  }
  const std::vector<float> others(24 * 64, 2);
  embedding.bytes = std::as_bytes(std::span(others));
  EXPECT_EQ(
      refusal_of({head, embedding}),
      "weights: tensor \"model.embed_tokens.weight\": differs from \"lm_head.weight\"; the model has one "
      "matrix for both");
}

}  // namespace
}  // namespace serval
