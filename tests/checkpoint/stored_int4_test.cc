// Checkpoints in 4-bit integers: codes, scales and zero points are kept as they are, or one line says why
// not.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/stored_formats.h"
#include "models/checkpoint/weights.h"
#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"
#include "vm/base/bf16.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kModules[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                    "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                    "mlp.down_proj"};
constexpr int64_t kGroup = 32;
const std::string kUp = "model.layers.0.mlp.up_proj";

std::string bytes_in(const std::string& type, float value) {
  if (type == "F32") return bytes_of<float>({value});
  return bytes_of<uint16_t>({type == "BF16" ? float_to_bf16(value) : float_to_fp16(value)});
}

// The tiny model with the matrices of its layer as compressed-tensors packs them, in groups of 32.
class PackedModel {
 public:
  explicit PackedModel(std::string scale_type)
      : scale_type_(std::move(scale_type)), tensors_(tiny_tensors("BF16")) {
    std::mt19937 random(1);
    for (const char* module : kModules) store(std::string("model.layers.0.") + module, random);
  }

  json& weights() { return config_["config_groups"]["group_0"]["weights"]; }
  TestTensor& tensor(const std::string& name) {
    return *std::ranges::find(tensors_, name, &TestTensor::name);
  }
  // Sets the scale of a group of up_proj.
  void set_scale(size_t index, float value) {
    const std::string bytes = bytes_in(scale_type_, value);
    tensor(kUp + ".weight_scale").data.replace(index * bytes.size(), bytes.size(), bytes);
  }
  // All scales of up_proj, times `factor`.
  void multiply_scales(float factor) {
    for (size_t i = 0; i < 64; ++i) set_scale(i, factor * scale_of(i));
  }

  void write(const TempDir& dir) const { write_quantised_tiny_model(dir, config_, tensors_); }
  StoredFormats formats() const {
    const TempDir dir;
    write(dir);
    return stored_formats(dir.path(), tiny_config());
  }
  static LlamaConfig in_int4() {
    LlamaConfig model = tiny_config();
    model.formats.layers = DType::kInt4G32;
    return model;
  }
  ModelWeights load(NotFinite not_finite = NotFinite::kRefused) const {
    const TempDir dir;
    write(dir);
    return ModelWeights::materialise(open_checkpoint_weights(dir.path(), in_int4(), not_finite));
  }
  std::string refusal() const {
    return error_of([&] { load(); });
  }
  static float scale_of(size_t index) { return static_cast<float>(3 + index % 13) / 1024; }

 private:
  void store(const std::string& module, std::mt19937& random) {
    TestTensor& weight = tensor(module + ".weight");
    const int64_t rows = weight.shape[0], cols = weight.shape[1], groups = cols / kGroup;
    std::vector<uint32_t> words(static_cast<size_t>(rows * cols / 8));
    for (uint32_t& word : words) word = static_cast<uint32_t>(random());
    std::string scales;
    for (size_t i = 0; i < static_cast<size_t>(rows * groups); ++i)
      scales += bytes_in(scale_type_, scale_of(i));
    std::erase_if(tensors_, [&](const TestTensor& t) { return t.name == module + ".weight"; });
    tensors_.push_back({module + ".weight_packed", "I32", {rows, cols / 8}, bytes_of(words)});
    tensors_.push_back({module + ".weight_shape", "I64", {2}, bytes_of<int64_t>({rows, cols})});
    tensors_.push_back({module + ".weight_scale", scale_type_, {rows, groups}, scales});
  }

  std::string scale_type_;
  json config_ = {{"quant_method", "compressed-tensors"},
                  {"format", "pack-quantized"},
                  {"config_groups",
                   {{"group_0",
                     {{"targets", {"Linear"}},
                      {"weights",
                       {{"num_bits", 4},
                        {"type", "int"},
                        {"strategy", "group"},
                        {"group_size", kGroup},
                        {"symmetric", true}}}}}}},
                  {"ignore", {"lm_head"}}};
  std::vector<TestTensor> tensors_;
};

// Codes of up_proj, which packs eight neighbours into a word.
uint32_t packed_code(PackedModel& model, int64_t row, int64_t col) {
  uint32_t word = 0;
  std::memcpy(&word, model.tensor(kUp + ".weight_packed").data.data() + (row * 64 + col) / 8 * 4,
              sizeof word);
  return word >> (col % 8 * 4) & 0xF;
}

void expect_kept(PackedModel& model, float of_row) {
  const ModelWeights weights = model.load();
  const Matrix matrix = weights.matrix(kUp + ".weight");
  ASSERT_EQ(matrix.bf16, nullptr);
  ASSERT_EQ(matrix.dtype, DType::kInt4G32);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const uint8_t* codes = matrix.codes + row * bytes_of_weights(DType::kInt4G32, 1, matrix.cols);
    ASSERT_EQ(int4_rows::scale_of(codes, 64, kGroup), of_row);
    for (uint64_t n = 0; n < 2; ++n) {
      const uint32_t word = int4_rows::word_of(codes, 64, n);
      ASSERT_EQ(int4::zero_point_of(word), 8U);
      ASSERT_EQ(fp16_to_float(int4::scale_of(word)), PackedModel::scale_of(static_cast<size_t>(row) * 2 + n));
    }
    for (int64_t col = 0; col < matrix.cols; ++col)
      ASSERT_EQ(int4_rows::code_of(codes, static_cast<uint64_t>(col)), packed_code(model, row, col));
  }
}

TEST(StoredInt4, CodesScalesAndZeroPointsAreKept) {
  for (const char* type : {"F16", "BF16"}) {
    PackedModel model(type);
    EXPECT_EQ(model.formats().formats, WeightFormats{.layers = DType::kInt4G32});
    EXPECT_EQ(model.formats().layers_reason, "");
    expect_kept(model, 1);
  }
}

TEST(StoredInt4, TakesItsOwnBytes) {
  const PackedModel model("F16");
  const TempDir dir;
  model.write(dir);
  EXPECT_EQ(open_checkpoint_weights(dir.path(), PackedModel::in_int4())->total_bytes(),
            PackedModel::in_int4().weight_bytes());
}

// bf16 reaches further than fp16: the scale of the row takes a power of two out of the groups'.
TEST(StoredInt4, ScalesOfBf16ThatFp16CannotReachAreKeptByTheScaleOfTheRow) {
  PackedModel model("BF16");
  model.multiply_scales(0x1p-60F);
  const ModelWeights weights = model.load();
  const Matrix matrix = weights.matrix(kUp + ".weight");
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const uint8_t* codes = matrix.codes + row * bytes_of_weights(DType::kInt4G32, 1, matrix.cols);
    for (uint64_t n = 0; n < 2; ++n)
      ASSERT_EQ(fp16_to_float(int4::scale_of(int4_rows::word_of(codes, 64, n))) *
                    int4_rows::scale_of(codes, 64, kGroup),
                PackedModel::scale_of(static_cast<size_t>(row) * 2 + n) * 0x1p-60F);
  }
  model.set_scale(10, 1.0F);  // beside 2^-69 in the same row
  EXPECT_THAT(model.refusal(),
              HasSubstr("up_proj.weight_scale\": row 5: fp16 cannot hold its scales; --weights bf16"));
}

TEST(StoredInt4, ScalesOfFp32AreKeptWhereFp16HoldsThem) {
  PackedModel model("F32");
  EXPECT_EQ(model.formats().formats.layers, DType::kInt4G32);
  expect_kept(model, 1);
  model.multiply_scales(0x1p-40F);
  EXPECT_EQ(model.formats().formats.layers, DType::kInt4G32);
  const ModelWeights weights = model.load();
  const Matrix matrix = weights.matrix(kUp + ".weight");
  EXPECT_NE(int4_rows::scale_of(matrix.codes, 64, kGroup), 1);
  EXPECT_EQ(fp16_to_float(int4::scale_of(int4_rows::word_of(matrix.codes, 64, 1))) *
                int4_rows::scale_of(matrix.codes, 64, kGroup),
            PackedModel::scale_of(1) * 0x1p-40F);
}

TEST(StoredInt4, ScalesOfFp32AreNotKeptWhereFp16DoesNotHoldThem) {
  PackedModel model("F32");
  model.multiply_scales(1.0F / 3);
  const StoredFormats stored = model.formats();
  EXPECT_TRUE(stored.formats.all_bf16());
  EXPECT_EQ(
      stored.layers_reason,
      "tensor \"model.layers.0.mlp.up_proj.weight\" is 4-bit integers in groups of 32 with scales of "
      "type F32 that fp16 cannot hold, not 4-bit integers in groups of 32, 64, 128 or rows with scales of "
      "16 bits");
}

TEST(StoredInt4, GroupsThatNoTypeHasAreNotKept) {
  PackedModel model("F16");
  model.weights()["group_size"] = 16;
  for (const char* module : kModules) {
    TestTensor& scales = model.tensor(std::string("model.layers.0.") + module + ".weight_scale");
    scales.shape[1] *= 2;
    scales.data += scales.data;
  }
  EXPECT_TRUE(model.formats().formats.all_bf16());
  EXPECT_THAT(model.formats().layers_reason, HasSubstr("is 4-bit integers in groups of 16, not"));
}

TEST(StoredInt4, ScalesThatAreNotFiniteAreRefused) {
  PackedModel model("F16");
  model.set_scale(2 * 9 + 1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(model.refusal(),
              HasSubstr("up_proj.weight_scale\": scale nan: element [9, 32] is nan; --allow-nonfinite"));
  const ModelWeights loaded = model.load(NotFinite::kLoaded);
  const Matrix matrix = loaded.matrix(kUp + ".weight");
  const uint8_t* row = matrix.codes + 9 * bytes_of_weights(DType::kInt4G32, 1, 64);
  EXPECT_TRUE(std::isnan(value_in_row(DType::kInt4G32, row, 64, 40)));
  EXPECT_FALSE(std::isnan(value_in_row(DType::kInt4G32, row, 64, 20)));
}

// Values are no fp16, only scales are.
TEST(StoredInt4, ValuesThatFp16CannotHoldAreKept) {
  PackedModel model("F16");
  model.set_scale(2 * 9, 60'000);
  const ModelWeights loaded = model.load(NotFinite::kRefused);
  const Matrix matrix = loaded.matrix(kUp + ".weight");
  const uint8_t* row = matrix.codes + 9 * bytes_of_weights(DType::kInt4G32, 1, 64);
  const auto code = static_cast<float>(int4_rows::code_of(row, 5)), zero = 8.0F;
  EXPECT_EQ(value_in_row(DType::kInt4G32, row, 64, 5), fp16_to_float(float_to_fp16(60'000)) * (code - zero));
}

}  // namespace
}  // namespace serval
