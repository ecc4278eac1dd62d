// Checkpoints in e4m3: which of their matrices are kept, and that codes and scales stay as they are.
#include "models/checkpoint/stored_formats.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "models/checkpoint/weights.h"
#include "tests/checkpoint/test_files.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"
#include "vm/layout/e4m3_rows.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kModules[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                    "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                    "mlp.down_proj"};
constexpr const char* kUp = "model.layers.0.mlp.up_proj";

enum class Scales { kScalar, kOne, kRows, kColumn };  // shapes [], [1], [rows], [rows, 1]

// One way to store e4m3.
struct Method {
  const char* name;
  json config;
  std::string scale_type;
  Scales scales;
};

json compressed_tensors(const char* format, const char* strategy) {
  const json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", strategy}};
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"ignore", {"lm_head"}}};
}

std::vector<Method> methods() {
  const json fp8 = {{"quant_method", "fp8"}};
  const json fbgemm = {{"quant_method", "fbgemm_fp8"}};
  const json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  const json modelopt_rows = {{"quant_method", "modelopt"}, {"quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"}};
  return {
      {"fp8, a scale", fp8, "F32", Scales::kScalar},
      {"fp8, a scale in F16", fp8, "F16", Scales::kOne},
      {"fp8, a scale for each row", fp8, "F32", Scales::kRows},
      {"fp8, powers of two", fp8, "F8_E8M0", Scales::kRows},
      {"fbgemm_fp8", fbgemm, "F32", Scales::kColumn},
      {"float-quantized, channel", compressed_tensors("float-quantized", "channel"), "BF16", Scales::kColumn},
      {"float-quantized, tensor", compressed_tensors("float-quantized", "tensor"), "F32", Scales::kOne},
      {"naive-quantized, channel", compressed_tensors("naive-quantized", "channel"), "F16", Scales::kColumn},
      {"modelopt", modelopt, "F32", Scales::kScalar},
      {"modelopt, channel", modelopt_rows, "BF16", Scales::kRows}};
}

bool is_per_row(Scales scales) {
  return scales == Scales::kRows || scales == Scales::kColumn;
}

// All codes that are not NaN.
uint8_t code_of(size_t module, int64_t element) {
  constexpr uint8_t kNan = 0x7F;
  const auto code = static_cast<uint8_t>(31 * static_cast<int64_t>(module) + 7 * element);
  return (code & kNan) == kNan ? static_cast<uint8_t>(code & 0x80) : code;
}

uint8_t e8m0_scale(int64_t row) {
  return static_cast<uint8_t>(row == 3 ? 0 : 110 + row % 11);  // 2^-127 is subnormal in fp32
}

// Exact in the type; in F32 with more bits than bf16 has. A negative one, zero and a subnormal are among
// them.
float scale_of(const std::string& type, size_t module, int64_t row) {
  const auto step = static_cast<float>(static_cast<int64_t>(module) + row % 5);
  if (type == "F8_E8M0") return std::ldexp(1.0F, e8m0_scale(row) - 127);
  if (row == 3) return 0;
  if (row == 4) return -0.25F;
  if (type != "F32") return (8 + step) / 1024;
  return row == 5 ? 1e-40F : 1 / (100 + step);
}

template <typename T>
void put(TestTensor& tensor, size_t index, T value) {
  std::memcpy(tensor.data.data() + index * sizeof value, &value, sizeof value);
}

std::string encoded(const std::string& type, const std::vector<float>& values) {
  if (type == "F32") return bytes_of(values);
  if (type == "F8_E8M0") {
    std::string bytes;
    for (size_t row = 0; row < values.size(); ++row)
      bytes += static_cast<char>(e8m0_scale(static_cast<int64_t>(row)));
    return bytes;
  }
  std::vector<uint16_t> halves;
  for (const float value : values)
    halves.push_back(type == "BF16" ? float_to_bf16(value) : float_to_fp16(value));
  return bytes_of(halves);
}

// The tiny model with all matrices of its layer in e4m3.
class Fp8Model {
 public:
  explicit Fp8Model(const Method& method, bool tied = true)
      : method_(method), config_(method.config), tied_(tied), tensors_(tiny_tensors("BF16", tied)) {
    for (size_t module = 0; module < std::size(kModules); ++module)
      store(std::string("model.layers.0.") + kModules[module], module);
  }

  json& config() { return config_; }
  std::vector<TestTensor>& tensors() { return tensors_; }
  TestTensor& tensor(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &TestTensor::name);
    if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
    return *found;
  }

  // Replaces a matrix by codes and scales.
  void store(const std::string& module, size_t number) {
    TestTensor& weight = tensor(module + ".weight");
    const int64_t rows = weight.shape[0], elements = rows * weight.shape[1];
    weight.dtype = "F8_E4M3";
    weight.data.clear();
    for (int64_t i = 0; i < elements; ++i) weight.data += static_cast<char>(code_of(number, i));
    std::vector<float> scales;
    for (int64_t row = 0; row < (is_per_row(method_.scales) ? rows : 1); ++row)
      scales.push_back(scale_of(method_.scale_type, number, row));
    tensors_.push_back({module + ".weight_scale", method_.scale_type, shape_of_scales(rows),
                        encoded(method_.scale_type, scales)});
  }
  // Stores a matrix in BF16 again.
  void restore(const std::string& module) {
    std::erase_if(tensors_, [&](const TestTensor& t) { return t.name == module + ".weight_scale"; });
    for (const TestTensor& plain : tiny_tensors("BF16", tied_))
      if (plain.name == module + ".weight") tensor(plain.name) = plain;
  }

  void write(const TempDir& dir) const { write_quantised_tiny_model(dir, config_, tensors_, tied_); }
  StoredFormats formats() const {
    const TempDir dir;
    write(dir);
    return stored_formats(dir.path(), tiny_config(tied_));
  }
  // The error line of loading it for a run in e4m3.
  std::string refusal() const {
    const TempDir dir;
    write(dir);
    return error_of([&] { load(dir); });
  }
  ModelWeights load(const TempDir& dir, NotFinite not_finite = NotFinite::kRefused) const {
    return ModelWeights::materialise(open_checkpoint_weights(dir.path(), in_e4m3(), not_finite));
  }
  LlamaConfig in_e4m3() const {
    LlamaConfig model = tiny_config(tied_);
    model.formats.layers = DType::kE4M3;
    return model;
  }

 private:
  std::vector<int64_t> shape_of_scales(int64_t rows) const {
    if (method_.scales == Scales::kScalar) return {};
    if (method_.scales == Scales::kOne) return {1};
    return method_.scales == Scales::kRows ? std::vector{rows} : std::vector<int64_t>{rows, 1};
  }

  Method method_;
  json config_;
  bool tied_;
  std::vector<TestTensor> tensors_;
};

const Method kRowScales = {"fp8", {{"quant_method", "fp8"}}, "F32", Scales::kRows};

void expect_row(const uint8_t* row, size_t module, int64_t index, int64_t cols, const Method& method) {
  for (int64_t col = 0; col < cols; ++col)
    ASSERT_EQ(row[col], code_of(module, index * cols + col)) << "row " << index << " column " << col;
  const float scale = scale_of(method.scale_type, module, is_per_row(method.scales) ? index : 0);
  const float found = e4m3_rows::scale_of(row, static_cast<uint64_t>(cols));
  ASSERT_EQ(__builtin_bit_cast(uint32_t, found), __builtin_bit_cast(uint32_t, scale)) << "row " << index;
}

TEST(StoredE4M3, CodesAndScalesOfEachMethodAreKeptBitForBit) {
  for (const Method& method : methods()) {
    SCOPED_TRACE(method.name);
    const Fp8Model model(method);
    const TempDir dir;
    model.write(dir);
    const StoredFormats stored = stored_formats(dir.path(), tiny_config());
    // These of compressed-tensors say nothing of activations.
    const bool e4m3_inputs = method.config.at("quant_method") != "compressed-tensors";
    EXPECT_EQ(stored.formats, (WeightFormats{.layers = DType::kE4M3, .e4m3_inputs = e4m3_inputs}));
    EXPECT_EQ(stored.layers_reason, "");
    const std::shared_ptr<const WeightSource> source = open_checkpoint_weights(dir.path(), model.in_e4m3());
    const ModelWeights weights = ModelWeights::materialise(source);
    for (size_t module = 0; module < std::size(kModules); ++module) {
      const std::string name = fmt::format("model.layers.0.{}.weight", kModules[module]);
      const Matrix matrix = weights.matrix(name);
      ASSERT_EQ(matrix.bf16, nullptr) << name;
      const auto row_bytes = static_cast<int64_t>(e4m3_rows::row_bytes(static_cast<uint64_t>(matrix.cols)));
      for (int64_t row = 0; row < matrix.rows; ++row)
        expect_row(matrix.codes + row * row_bytes, module, row, matrix.cols, method);
      std::vector<uint8_t> some(static_cast<size_t>(3 * row_bytes));
      source->read_codes(source->index_of(name), 2, 3, some.data());
      for (int64_t i = 0; i < 3; ++i)
        expect_row(some.data() + i * row_bytes, module, 2 + i, matrix.cols, method);
    }
  }
}

TEST(StoredE4M3, ARunInBf16HasTheDequantisedValues) {
  const Fp8Model model(kRowScales);
  const TempDir dir;
  model.write(dir);
  const std::shared_ptr<const WeightSource> kept = open_checkpoint_weights(dir.path(), model.in_e4m3());
  const ModelWeights weights = ModelWeights::load(dir.path(), tiny_config());
  const std::string name = std::string(kUp) + ".weight";
  const Matrix matrix = weights.matrix(name);
  ASSERT_NE(matrix.bf16, nullptr);
  std::vector<uint16_t> read(static_cast<size_t>(matrix.rows * matrix.cols));
  kept->read(kept->index_of(name), 0, read);
  constexpr size_t kNumber = 5;  // of up_proj
  for (int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
    const float value = e4m3_to_float(code_of(kNumber, i)) * scale_of("F32", kNumber, i / matrix.cols);
    ASSERT_EQ(matrix.bf16[i], float_to_bf16(value)) << i;
    ASSERT_EQ(read[static_cast<size_t>(i)], float_to_bf16(value)) << i;
  }
}

TEST(StoredE4M3, TheLogSaysWhatWasKept) {
  const Fp8Model model(kRowScales);
  const TempDir dir;
  model.write(dir);
  testing::internal::CaptureStdout();
  model.load(dir);
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, AllOf(HasSubstr("7 e4m3 tensors kept as stored"), Not(HasSubstr("rounded"))));
}

// The total of the progress is what is loaded.
TEST(StoredE4M3, IsCountedInItsOwnBytes) {
  const Fp8Model model(kRowScales);
  const TempDir dir;
  model.write(dir);
  EXPECT_EQ(open_checkpoint_weights(dir.path(), model.in_e4m3())->total_bytes(),
            model.in_e4m3().weight_bytes());
  EXPECT_EQ(open_checkpoint_weights(dir.path(), tiny_config())->total_bytes(), tiny_config().weight_bytes());
}

TEST(StoredE4M3, BlocksAreNotKept) {
  Fp8Model model(kRowScales);
  model.config()["weight_block_size"] = {16, 32};
  for (const char* name : kModules) {
    TestTensor& scales = model.tensor(fmt::format("model.layers.0.{}.weight_scale", name));
    const std::vector<int64_t> shape = model.tensor(fmt::format("model.layers.0.{}.weight", name)).shape;
    scales.shape = {(shape[0] + 15) / 16, (shape[1] + 31) / 32};
    scales.data = bytes_of(std::vector<float>(static_cast<size_t>(scales.shape[0] * scales.shape[1]), 1));
  }
  const StoredFormats stored = model.formats();
  EXPECT_TRUE(stored.formats.all_bf16());
  // down_proj has 32 columns, one block.
  EXPECT_EQ(stored.layers_reason,
            "tensor \"model.layers.0.self_attn.q_proj.weight\" is e4m3 in blocks of 16 × 32, not e4m3 with a "
            "scale per matrix or row");
  const TempDir dir;
  model.write(dir);
  EXPECT_NE(model.load(dir).matrix(std::string(kUp) + ".weight").bf16, nullptr);
}

TEST(StoredE4M3, AMatrixThatIsLeftOutLeavesTheLayersInBf16) {
  Fp8Model model(kRowScales);
  model.config()["modules_to_not_convert"] = {"up_proj"};
  model.restore(kUp);
  const StoredFormats stored = model.formats();
  EXPECT_TRUE(stored.formats.all_bf16());
  EXPECT_EQ(stored.layers_reason,
            "tensor \"model.layers.0.mlp.up_proj.weight\" is BF16, not e4m3 with a scale per matrix or row");
  // A run that asks for e4m3 keeps the others.
  const TempDir dir;
  model.write(dir);
  const ModelWeights weights = model.load(dir);
  EXPECT_NE(weights.matrix(std::string(kUp) + ".weight").bf16, nullptr);
  EXPECT_NE(weights.matrix("model.layers.0.mlp.gate_proj.weight").codes, nullptr);
}

TEST(StoredE4M3, TheHeadIsDecidedOnItsOwn) {
  Fp8Model model(kRowScales, /*tied=*/false);
  EXPECT_EQ(model.formats().formats, (WeightFormats{.layers = DType::kE4M3, .e4m3_inputs = true}));
  EXPECT_EQ(model.formats().lm_head_reason, "");
  model.store("lm_head", 9);
  EXPECT_EQ(model.formats().formats,
            (WeightFormats{.layers = DType::kE4M3, .lm_head = DType::kE4M3, .e4m3_inputs = true}));
  model.restore("model.layers.0.self_attn.o_proj");
  EXPECT_EQ(model.formats().formats, WeightFormats{.lm_head = DType::kE4M3});
  EXPECT_THAT(model.formats().layers_reason, HasSubstr("o_proj.weight\" is BF16"));
}

TEST(StoredE4M3, OtherCheckpointsAreBf16WithoutAReason) {
  const TempDir plain, empty;
  plain.write("config.json", tiny_config_json(true));
  plain.write("model.safetensors", safetensors_file(tiny_tensors("BF16")));
  json config = json::parse(tiny_config_json(true));
  config["quantization_config"] = {{"quant_method", "fp8"}};
  empty.write("config.json", config.dump());
  for (const TempDir* dir : {&plain, &empty}) {
    const StoredFormats stored = stored_formats(dir->path(), tiny_config());
    EXPECT_TRUE(stored.formats.all_bf16());
    EXPECT_EQ(stored.layers_reason + stored.lm_head_reason, "");
  }
}

// Each lie is told in one line that names the tensor, as for a run in bf16.
TEST(StoredE4M3, ScalesThatAreMissingOrOfAnotherShapeAreRefused) {
  const std::string scale = std::string(kUp) + ".weight_scale";
  Fp8Model missing(kRowScales);
  std::erase_if(missing.tensors(), [&](const TestTensor& tensor) { return tensor.name == scale; });
  EXPECT_TRUE(missing.formats().formats.all_bf16());
  EXPECT_THAT(missing.refusal(), HasSubstr(fmt::format("tensor \"{}\": missing", scale)));
  Fp8Model other(kRowScales);
  other.tensor(scale).shape = {31};
  other.tensor(scale).data.resize(31 * sizeof(float));
  EXPECT_TRUE(other.formats().formats.all_bf16());
  EXPECT_THAT(other.refusal(), HasSubstr(fmt::format("tensor \"{}\": found shape [31], expected", scale)));
  Fp8Model integers(kRowScales);
  integers.tensor(std::string(kUp) + ".weight").dtype = "I8";
  EXPECT_THAT(integers.refusal(), HasSubstr("up_proj.weight\": found dtype I8; expected F8_E4M3"));
}

TEST(StoredE4M3, ValuesThatAreNotFiniteAreRefused) {
  const std::string weight = std::string(kUp) + ".weight", scale = weight + "_scale";
  for (const uint8_t nan : {0x7F, 0xFF}) {
    Fp8Model codes(kRowScales);
    put<uint8_t>(codes.tensor(weight), 9 * 64 + 33, nan);
    EXPECT_THAT(codes.refusal(),
                HasSubstr(fmt::format("up_proj.weight\": element [9, 33] is {}nan; --allow-nonfinite",
                                      nan == 0xFF ? "-" : "")));
    const TempDir dir;
    codes.write(dir);
    const ModelWeights loaded = codes.load(dir, NotFinite::kLoaded);
    EXPECT_EQ(loaded.matrix(weight).codes[9 * e4m3_rows::row_bytes(64) + 33], nan);
  }
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Fp8Model scales(kRowScales);
    put<float>(scales.tensor(scale), 17, value);
    EXPECT_THAT(scales.refusal(),
                HasSubstr(fmt::format("up_proj.weight_scale\": scale {}: element [17, 0] is", value)));
  }
}

}  // namespace
}  // namespace serval
