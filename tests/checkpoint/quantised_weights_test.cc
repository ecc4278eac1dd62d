// Loads models with quantised matrices, valid and damaged ones.
#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/weights.h"
#include "models/llama/graph.h"
#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kUp = "model.layers.0.mlp.up_proj";  // [32, 64]
constexpr int kRows = 32, kCols = 64, kGroup = 32, kGroups = kCols / kGroup;
constexpr uint16_t kHalfInF16 = 0x3800;

int code(int row, int col) {
  return (7 * row + 3 * col + row / 16) % 16;
}
int zero_point(int row, int group) {
  return 1 + (row + 5 * group) % 15;
}

// Words of 4-bit codes: codes(word, i) is the one in bits 4 i … 4 i + 3.
std::string words(int count, const std::function<int(int, int)>& codes) {
  std::vector<uint32_t> out(static_cast<size_t>(count));
  for (int word = 0; word < count; ++word)
    for (int i = 0; i < 8; ++i)
      out[static_cast<size_t>(word)] |= static_cast<uint32_t>(codes(word, i)) << (4 * i);
  return bytes_of(out);
}

std::string repeated(uint16_t value, size_t count) {
  return bytes_of(std::vector<uint16_t>(count, value));
}

// The tiny model, of which up_proj is quantised.
class QuantisedModel {
 public:
  QuantisedModel(json config, std::vector<TestTensor> matrix)
      : config_(std::move(config)), tensors_(tiny_tensors("BF16")) {
    remove(fmt::format("{}.weight", kUp));
    for (TestTensor& tensor : matrix) {
      tensor.name = fmt::format("{}.{}", kUp, tensor.name);
      tensors_.push_back(std::move(tensor));
    }
  }

  json& config() { return config_; }
  std::vector<TestTensor>& tensors() { return tensors_; }
  TestTensor& tensor(const std::string& suffix) {
    const std::string name = fmt::format("{}.{}", kUp, suffix);
    const auto found = std::ranges::find(tensors_, name, &TestTensor::name);
    if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
    return *found;
  }
  template <typename T>
  void put(const std::string& suffix, size_t index, T value) {
    std::memcpy(tensor(suffix).data.data() + index * sizeof value, &value, sizeof value);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TestTensor& tensor) { return tensor.name == name; });
  }

  void write(const TempDir& dir) const { write_quantised_tiny_model(dir, config_, tensors_); }
  std::vector<float> loaded(NotFinite not_finite = NotFinite::kRefused) const {
    const TempDir dir;
    write(dir);
    const auto weights =
        ModelWeights::materialise(open_checkpoint_weights(dir.path(), *read_model(dir.path()), not_finite));
    const Matrix matrix = weights.matrix(fmt::format("{}.weight", kUp));
    std::vector<float> values;
    for (int i = 0; i < kRows * kCols; ++i) values.push_back(bf16_to_float(matrix.bf16[i]));
    return values;
  }
  // The error line, without the directory.
  std::string refusal() const {
    const TempDir dir;
    write(dir);
    const std::string line = error_of([&] { ModelWeights::load(dir.path(), *read_model(dir.path())); });
    const std::string path = dir.path().string() + "/";
    EXPECT_THAT(line, StartsWith(path));
    return line.substr(std::min(path.size(), line.size()));
  }
  std::string log() const {
    const TempDir dir;
    write(dir);
    testing::internal::CaptureStdout();
    ModelWeights::load(dir.path(), *read_model(dir.path()));
    return testing::internal::GetCapturedStdout();
  }

 private:
  json config_;
  std::vector<TestTensor> tensors_;
};

void expect_values(const QuantisedModel& model, const std::function<float(int, int)>& expected) {
  const std::vector<float> values = model.loaded();
  for (int i = 0; i < kRows * kCols; ++i)
    ASSERT_EQ(values[static_cast<size_t>(i)], expected(i / kCols, i % kCols)) << i;
}

QuantisedModel gptq_model() {
  const auto zeros = [](int word, int i) { return zero_point(word % 4 * 8 + i, word / 4) - 1; };
  std::vector<int32_t> g_idx;
  for (int col = 0; col < kCols; ++col) g_idx.push_back(col / kGroup);
  return {{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", kGroup}, {"desc_act", false}},
          {{"qweight",
            "I32",
            {8, kRows},
            words(8 * kRows, [](int word, int i) { return code(word % kRows, word / kRows * 8 + i); })},
           {"qzeros", "I32", {kGroups, 4}, words(kGroups * 4, zeros)},
           {"scales", "F16", {kGroups, kRows}, repeated(kHalfInF16, kGroups * kRows)},
           {"g_idx", "I32", {kCols}, bytes_of(g_idx)}}};
}

QuantisedModel awq_model() {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto codes = [&](int word, int i) { return code(word % 4 * 8 + kOrder[i], word / 4); };
  const auto zeros = [&](int word, int i) { return zero_point(word % 4 * 8 + kOrder[i], word / 4); };
  return {{{"quant_method", "awq"},
           {"bits", 4},
           {"group_size", kGroup},
           {"zero_point", true},
           {"version", "gemm"}},
          {{"qweight", "I32", {kCols, 4}, words(kCols * 4, codes)},
           {"qzeros", "I32", {kGroups, 4}, words(kGroups * 4, zeros)},
           {"scales", "F16", {kGroups, kRows}, repeated(kHalfInF16, kGroups * kRows)}}};
}

QuantisedModel packed_model() {
  const json weights = {
      {"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", kGroup}, {"symmetric", false}};
  const json groups = {{"group_0", {{"targets", {"re:.*up_proj"}}, {"weights", weights}}}};
  const auto zeros = [](int word, int i) { return zero_point(word / kGroups * 8 + i, word % kGroups); };
  return {{{"quant_method", "compressed-tensors"},
           {"format", "pack-quantized"},
           {"config_groups", groups},
           {"ignore", json::array()}},
          {{"weight_packed",
            "I32",
            {kRows, 8},
            words(kRows * 8, [](int word, int i) { return code(word / 8, word % 8 * 8 + i); })},
           {"weight_scale", "BF16", {kRows, kGroups}, repeated(float_to_bf16(0.5F), kRows * kGroups)},
           {"weight_zero_point", "I32", {4, kGroups}, words(4 * kGroups, zeros)},
           {"weight_shape", "I64", {2}, bytes_of<int64_t>({kRows, kCols})}}};
}

uint8_t e4m3_code(int row, int col) {
  return static_cast<uint8_t>((11 * row + col) % 127);
}

QuantisedModel fp8_model() {
  std::string codes;
  for (int i = 0; i < kRows * kCols; ++i) codes += static_cast<char>(e4m3_code(i / kCols, i % kCols));
  return {{{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}},
          {{"weight", "F8_E4M3", {kRows, kCols}, codes},
           {"weight_scale_inv", "F32", {2, 2}, bytes_of<float>({0.5F, 2.0F, -1.0F, 0.0F})}}};
}

float integer_value(int row, int col) {
  return 0.5F * static_cast<float>(code(row, col) - zero_point(row, col / kGroup));
}

TEST(QuantisedWeights, EachLayoutLoadsToItsValues) {
  expect_values(gptq_model(), integer_value);
  expect_values(awq_model(), integer_value);
  expect_values(packed_model(), integer_value);
  expect_values(fp8_model(), [](int row, int col) {
    constexpr float kScales[2][2] = {{0.5F, 2.0F}, {-1.0F, 0.0F}};
    return e4m3_to_float(e4m3_code(row, col)) * kScales[row / 16][col / 32];
  });
}

TEST(QuantisedWeights, ColumnsMayBelongToGroupsInAnyOrder) {
  QuantisedModel gptq = gptq_model();
  gptq.config()["desc_act"] = true;
  for (int col = 0; col < kCols; ++col) gptq.put<int32_t>("g_idx", static_cast<size_t>(col), col % kGroups);
  expect_values(gptq, [](int row, int col) {
    return 0.5F * static_cast<float>(code(row, col) - zero_point(row, col % kGroups));
  });
}

TEST(QuantisedWeights, ThatAreStoredInBf16AreUsedAsTheyAre) {
  for (QuantisedModel model : {gptq_model(), fp8_model()}) {
    std::erase_if(model.tensors(), [](const TestTensor& tensor) { return tensor.name.starts_with(kUp); });
    model.tensors().push_back(
        {std::string(kUp) + ".weight", "BF16", {kRows, kCols}, repeated(float_to_bf16(3.0F), kRows * kCols)});
    expect_values(model, [](int, int) { return 3.0F; });
  }
}

// Projections that engines fuse keep their own scales.
TEST(QuantisedWeights, QKVAndGateAndUpHaveScalesOfTheirOwn) {
  QuantisedModel model = fp8_model();
  model.config().erase("weight_block_size");
  model.remove(fmt::format("{}.weight_scale_inv", kUp));
  const std::vector<std::string> names = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                          "mlp.gate_proj", "mlp.up_proj"};
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string module = "model.layers.0." + names[i];
    for (TestTensor& tensor : model.tensors()) {
      if (tensor.name != module + ".weight") continue;
      tensor.dtype = "F8_E4M3";
      tensor.data = std::string(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]), 0x38);  // 1
    }
    model.tensors().push_back(
        {module + ".weight_scale", "F32", {}, bytes_of<float>({static_cast<float>(i + 1)})});
  }
  const TempDir dir;
  model.write(dir);
  const ModelWeights weights = ModelWeights::load(dir.path(), *read_model(dir.path()));
  for (size_t i = 0; i < names.size(); ++i) {
    const Matrix matrix = weights.matrix(fmt::format("model.layers.0.{}.weight", names[i]));
    for (const int64_t element : {int64_t{0}, matrix.rows * matrix.cols - 1})
      EXPECT_EQ(bf16_to_float(matrix.bf16[element]), static_cast<float>(i + 1)) << names[i];
  }
}

TEST(QuantisedWeights, AQuantisedHeadBesideATiedEmbeddingIsUsed) {
  QuantisedModel model = gptq_model();
  for (const char* suffix : {"qweight", "qzeros", "scales", "g_idx"}) {
    TestTensor tensor = model.tensor(suffix);
    tensor.name = fmt::format("lm_head.{}", suffix);
    for (int64_t& extent : tensor.shape)  // 24 rows instead of 32
      extent = extent == kRows ? 24 : extent == 4 && std::string(suffix) == "qzeros" ? 3 : extent;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    tensor.data.assign(static_cast<size_t>(elements) * (tensor.dtype == "F16" ? 2 : 4), 0);
    model.tensors().push_back(tensor);
  }
  const TempDir dir;
  model.write(dir);
  const auto config = read_model(dir.path());
  EXPECT_FALSE(config->tie_word_embeddings);
  const ModelWeights weights = ModelWeights::load(dir.path(), *config);
  EXPECT_EQ(bf16_to_float(weights.matrix(llama_tensor::kLmHead).bf16[5]), 0.0F);
}

TEST(QuantisedWeights, TheLogSaysWhatWasConvertedAndWhatIsNotDone) {
  QuantisedModel fp8 = fp8_model();
  fp8.tensors().push_back({std::string(kUp) + ".input_scale", "F32", {}, bytes_of<float>({1.0F})});
  const std::string log = fp8.log();
  EXPECT_THAT(log, HasSubstr("1 e4m3 tensor rounded to the nearest bf16"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST(QuantisedWeights, ZeroBiasesOfPackagesAreIgnored) {
  QuantisedModel gptq = gptq_model();
  gptq.tensors().push_back({std::string(kUp) + ".bias", "F16", {kRows}, repeated(0, kRows)});
  EXPECT_THAT(gptq.log(), Not(HasSubstr("bias")));
  gptq.put<uint16_t>("bias", 3, 1);
  EXPECT_THAT(gptq.log(),
              HasSubstr("1 tensor that the model does not use: \"model.layers.0.mlp.up_proj.bias\""));
}

// Each lie is told in one line that names the tensor.
TEST(QuantisedWeights, MissingTensorsAreRefused) {
  for (const char* suffix : {"qweight", "qzeros", "scales"}) {
    for (QuantisedModel model : {gptq_model(), awq_model()}) {
      model.remove(model.tensor(suffix).name);
      EXPECT_EQ(model.refusal(), fmt::format("model.safetensors: tensor \"{}.{}\": missing", kUp, suffix));
    }
  }
  for (const char* suffix : {"weight_packed", "weight_scale", "weight_zero_point", "weight_shape"}) {
    QuantisedModel model = packed_model();
    model.remove(model.tensor(suffix).name);
    EXPECT_EQ(model.refusal(), fmt::format("model.safetensors: tensor \"{}.{}\": missing", kUp, suffix));
  }
  QuantisedModel fp8 = fp8_model();
  fp8.remove(fp8.tensor("weight_scale_inv").name);
  EXPECT_EQ(fp8.refusal(), fmt::format("model.safetensors: tensor \"{}.weight_scale\": missing", kUp));
  QuantisedModel gptq = gptq_model();
  gptq.remove(gptq.tensor("g_idx").name);
  EXPECT_EQ(gptq.loaded().size(), size_t{kRows * kCols});  // groups in sequence
  gptq.config()["desc_act"] = true;
  EXPECT_EQ(gptq.refusal(), fmt::format("model.safetensors: tensor \"{}.g_idx\": missing", kUp));
}

TEST(QuantisedWeights, OtherShapesAndTypesAreRefused) {
  const auto refusal = [](QuantisedModel model, const std::string& suffix, std::vector<int64_t> shape,
                          size_t bytes) {
    TestTensor& tensor = model.tensor(suffix);
    tensor.shape = std::move(shape);
    tensor.data.resize(bytes);
    return model.refusal();
  };
  EXPECT_EQ(refusal(gptq_model(), "qweight", {7, 32}, 7 * 32 * 4),
            fmt::format("model.safetensors: tensor \"{}.qweight\": found shape [7, 32], expected [8, 32]: "
                        "the matrix is [32, 64]",
                        kUp));
  EXPECT_THAT(refusal(gptq_model(), "scales", {1, 32}, 64),
              HasSubstr("found shape [1, 32], expected [2, 32]"));
  EXPECT_THAT(refusal(gptq_model(), "qzeros", {2, 3}, 24), HasSubstr("found shape [2, 3], expected [2, 4]"));
  EXPECT_THAT(refusal(gptq_model(), "g_idx", {63}, 252), HasSubstr("found shape [63], expected [64]"));
  EXPECT_THAT(refusal(awq_model(), "qweight", {64, 3}, 64 * 3 * 4),
              HasSubstr("found shape [64, 3], expected [64, 4]"));
  EXPECT_THAT(refusal(packed_model(), "weight_packed", {32, 7}, 32 * 7 * 4),
              HasSubstr("found shape [32, 7], expected [32, 8]"));
  EXPECT_THAT(refusal(packed_model(), "weight_scale", {32, 1}, 64),
              HasSubstr("found shape [32, 1], expected [32, 2]"));
  EXPECT_THAT(refusal(fp8_model(), "weight_scale_inv", {2, 1}, 8),
              HasSubstr("found shape [2, 1], expected [2, 2]"));
  EXPECT_THAT(refusal(fp8_model(), "weight", {16, 128}, 2048),
              HasSubstr("found shape [16, 128], expected [32, 64]"));
  QuantisedModel typed = gptq_model();
  typed.tensor("scales").dtype = "I16";
  EXPECT_THAT(typed.refusal(),
              EndsWith(".scales\": found dtype I16; expected F32 or BF16 or F16 or F8_E8M0"));
  QuantisedModel integers = fp8_model();
  integers.tensor("weight").dtype = "I8";
  EXPECT_THAT(integers.refusal(), EndsWith(".weight\": found dtype I8; expected F8_E4M3"));
  QuantisedModel stated = packed_model();
  stated.put<int64_t>("weight_shape", 1, 63);
  EXPECT_THAT(stated.refusal(),
              EndsWith("weight_shape\": states [32, 63], expected [32, 64] by config.json"));
}

TEST(QuantisedWeights, TooFewBytesAreRefused) {
  QuantisedModel gptq = gptq_model();
  gptq.tensor("qweight").data.pop_back();
  const TempDir dir;
  gptq.write(dir);
  EXPECT_THAT(error_of([&] { ModelWeights::load(dir.path(), tiny_config()); }),
              HasSubstr("data_offsets: found 1023 bytes, but shape [8, 32] of I32 takes 1024"));
}

TEST(QuantisedWeights, GroupSizesThatDoNotDivideAreRefused) {
  for (QuantisedModel model : {gptq_model(), awq_model()}) {
    model.config()["group_size"] = 48;
    EXPECT_THAT(model.refusal(), EndsWith("qweight\": the group size 48 does not divide its 64 columns"));
  }
  QuantisedModel packed = packed_model();
  packed.config()["config_groups"]["group_0"]["weights"]["group_size"] = 48;
  EXPECT_THAT(packed.refusal(),
              EndsWith("weight_packed\": the group size 48 does not divide its 64 columns"));
}

TEST(QuantisedWeights, ColumnGroupsOutOfRangeAreRefused) {
  for (const int32_t group : {-2, -1, 2, INT32_MAX}) {
    QuantisedModel gptq = gptq_model();
    gptq.put<int32_t>("g_idx", 17, group);
    EXPECT_THAT(gptq.refusal(), EndsWith(fmt::format("g_idx\": element 17: found {}; limit: 0 to 1", group)));
  }
}

TEST(QuantisedWeights, ZeroPointsOutOfRangeAreRefused) {
  QuantisedModel gptq = gptq_model();
  gptq.put<uint8_t>("qzeros", 17, 0xF3);  // rows 2 and 3 of group 1
  EXPECT_THAT(gptq.refusal(),
              EndsWith("qzeros\": group 1 of row 3: found 15, which means a zero point of 16; limit: 15"));
  gptq.config()["checkpoint_format"] = "gptq_v2";
  EXPECT_EQ(gptq.loaded()[3 * kCols + kGroup], 0.5F * static_cast<float>(code(3, kGroup) - 15));
}

TEST(QuantisedWeights, NotANumberIsRefused) {
  QuantisedModel codes = fp8_model();
  codes.put<uint8_t>("weight", 2 * kCols + 5, 0x7F);
  EXPECT_THAT(codes.refusal(), HasSubstr("up_proj.weight\": element [2, 5] is nan; --allow-nonfinite"));
  EXPECT_TRUE(std::isnan(codes.loaded(NotFinite::kLoaded)[2 * kCols + 5]));
  QuantisedModel scales = fp8_model();
  scales.put<float>("weight_scale_inv", 1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(scales.refusal(), HasSubstr("weight_scale_inv\": scale nan: element [0, 32] is nan"));
  scales.put<float>("weight_scale_inv", 1, std::numeric_limits<float>::infinity());
  EXPECT_THAT(scales.refusal(), HasSubstr("weight_scale_inv\": scale inf: element [0, 32] is"));
  scales.put<float>("weight_scale_inv", 1, 3e38F);
  EXPECT_THAT(scales.refusal(), HasSubstr("up_proj.weight\": element [0, "));
  QuantisedModel gptq = gptq_model();
  gptq.put<uint16_t>("scales", 40, 0x7E00);
  EXPECT_THAT(gptq.refusal(), HasSubstr("scales\": scale nan: element [8, 32] is nan"));
}

TEST(QuantisedWeights, ThatTheConfigurationLeavesOutAreRefused) {
  QuantisedModel gptq = gptq_model();
  gptq.config()["modules_to_not_convert"] = {"up_proj"};
  const std::string line = gptq.refusal();
  EXPECT_THAT(line,
              StartsWith(fmt::format("model.safetensors: module \"{}\": stored quantised, although ", kUp)));
  EXPECT_THAT(line, EndsWith("config.json: quantization_config.modules_to_not_convert leaves it out"));
  // The group targets all projections, but only one of them is packed.
  QuantisedModel packed = packed_model();
  packed.config()["config_groups"]["group_0"]["targets"] = {"Linear"};
  EXPECT_THAT(packed.refusal(), EndsWith("self_attn.q_proj.weight_packed\": missing"));
}

TEST(QuantisedWeights, TwoNamesOfAScaleAreRefused) {
  QuantisedModel fp8 = fp8_model();
  fp8.tensors().push_back({std::string(kUp) + ".weight_scale", "F32", {}, bytes_of<float>({1.0F})});
  EXPECT_THAT(fp8.refusal(), EndsWith("weight_scale_inv\": found weight_scale, too; expected one of them"));
}

}  // namespace
}  // namespace serval
