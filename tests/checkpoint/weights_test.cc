#include "models/checkpoint/weights.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "fmt/format.h"

#include "models/checkpoint/not_finite.h"
#include "models/checkpoint/random_weights.h"
#include "models/llama/graph.h"
#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"
#include "vm/base/bf16.h"

namespace serval {
namespace {

using testing::HasSubstr;

void write_model(const TempDir& dir, const std::vector<TestTensor>& tensors, size_t padding = 0) {
  dir.write("model.safetensors", safetensors_file(tensors, padding));
}

void expect_tiny_values(const ModelWeights& weights, bool tied) {
  for (const WeightSpec& spec : tiny_config(tied).weights()) {
    const Matrix matrix = weights.matrix(spec.name);
    ASSERT_EQ(matrix.rows, spec.rows) << spec.name;
    ASSERT_EQ(matrix.cols, spec.cols) << spec.name;
    for (size_t i = 0; i < static_cast<size_t>(spec.elements()); ++i)
      ASSERT_EQ(bf16_to_float(matrix.bf16[i]), tiny_value(spec.name, i)) << spec.name << " element " << i;
  }
}

TestTensor& tensor_named(std::vector<TestTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const TestTensor& t) { return t.name == name; });
}

// The log that `action` writes. The log goes to stdout by default.
std::string log_of(const std::function<void()>& action) {
  testing::internal::CaptureStdout();
  action();
  return testing::internal::GetCapturedStdout();
}

TEST(ModelWeights, LoadsEveryTypeToTheSameValues) {
  for (const char* dtype : {"BF16", "F16", "F32"}) {
    for (const bool tied : {true, false}) {
      const TempDir dir;
      write_model(dir, tiny_tensors(dtype, tied));
      expect_tiny_values(ModelWeights::load(dir.path(), tiny_config(tied)), tied);
    }
  }
}

TEST(ModelWeights, LoadsShards) {
  const TempDir dir;
  std::string map;
  int shard = 0;
  for (const TestTensor& tensor : tiny_tensors("BF16")) {
    const std::string file = fmt::format("model-{}.safetensors", shard++);
    dir.write(file, safetensors_file({tensor}));
    map += fmt::format(R"({}"{}": "{}")", map.empty() ? "" : ", ", tensor.name, file);
  }
  dir.write("model.safetensors.index.json", R"({"weight_map": {)" + map + "}}");
  expect_tiny_values(ModelWeights::load(dir.path(), tiny_config()), true);
}

TEST(ModelWeights, LoadsDataOfAnyAlignment) {
  for (size_t padding = 0; padding < 8; ++padding) {
    for (const char* dtype : {"BF16", "F32"}) {
      const TempDir dir;
      write_model(dir, tiny_tensors(dtype), padding);
      expect_tiny_values(ModelWeights::load(dir.path(), tiny_config()), true);
    }
  }
}

TEST(ModelWeights, SurviveBeingMoved) {
  const TempDir dir;
  write_model(dir, tiny_tensors("BF16"));
  ModelWeights first = ModelWeights::load(dir.path(), tiny_config());
  const uint16_t* before = first.matrix(llama_tensor::kFinalNorm).bf16;
  const ModelWeights second = std::move(first);
  EXPECT_EQ(second.matrix(llama_tensor::kFinalNorm).bf16, before);
  expect_tiny_values(second, true);
}

TEST(ModelWeights, RoundF32ToNearestEven) {
  std::vector<TestTensor> tensors = tiny_tensors("F32");
  std::vector<float> values(64, 1.0F);
  values[0] = 1.0F + 0x1p-8F;
  values[1] = 1.0F + 0x3p-8F;
  tensor_named(tensors, llama_tensor::kFinalNorm).data = bytes_of(values);
  const TempDir dir;
  write_model(dir, tensors);
  const ModelWeights weights = ModelWeights::load(dir.path(), tiny_config());
  EXPECT_EQ(weights.matrix(llama_tensor::kFinalNorm).bf16[0], 0x3F80);
  EXPECT_EQ(weights.matrix(llama_tensor::kFinalNorm).bf16[1], 0x3F82);
}

TEST(ModelWeights, ATiedLmHeadIsTheEmbedding) {
  const TempDir dir;
  write_model(dir, tiny_tensors("BF16"));
  const ModelWeights weights = ModelWeights::load(dir.path(), tiny_config());
  EXPECT_EQ(weights.matrix(llama_tensor::kLmHead).bf16, weights.matrix(llama_tensor::kEmbedding).bf16);
  EXPECT_EQ(weights.matrix(llama_tensor::kLmHead).rows, 24);
}

TEST(ModelWeights, NamesAMissingTensorAndItsShape) {
  const TempDir dir;
  write_model(dir, tiny_tensors("BF16", true));
  EXPECT_EQ(error_of([&] { ModelWeights::load(dir.path(), tiny_config(false)); }),
            (dir / "model.safetensors").string() +
                ": tensor \"lm_head.weight\": missing, expected shape [24, 64] by config.json");
}

TEST(ModelWeights, NamesATensorOfAnotherShape) {
  for (const WeightSpec& spec : tiny_config().weights()) {
    std::vector<TestTensor> tensors = tiny_tensors("BF16");
    TestTensor& tensor = tensor_named(tensors, spec.name);
    tensor.shape = {2, spec.elements() / 2};
    const TempDir dir;
    write_model(dir, tensors);
    EXPECT_THAT(error_of([&] { ModelWeights::load(dir.path(), tiny_config()); }),
                HasSubstr(fmt::format("tensor \"{}\": found shape [2, {}], expected shape [", spec.name,
                                      spec.elements() / 2)));
  }
}

TEST(ModelWeights, RefusesOtherTypes) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16");
  tensor_named(tensors, llama_tensor::kFinalNorm).dtype = "I16";
  const TempDir dir;
  write_model(dir, tensors);
  EXPECT_EQ(error_of([&] { ModelWeights::load(dir.path(), tiny_config()); }),
            (dir / "model.safetensors").string() +
                ": tensor \"model.norm.weight\": found dtype I16; supported: BF16, F16 and F32");
}

// The tiny model with some elements of its tensors replaced.
class SpoiltModel {
 public:
  explicit SpoiltModel(const std::string& dtype) : tensors_(tiny_tensors(dtype)) {}

  template <typename T>
  void put(const std::string& tensor, size_t index, T value) {
    std::memcpy(tensor_named(tensors_, tensor).data.data() + index * sizeof value, &value, sizeof value);
  }
  // The error line of loading, without the file's name.
  std::string refusal() const {
    const TempDir dir;
    write_model(dir, tensors_);
    const std::string line = error_of([&] { ModelWeights::load(dir.path(), tiny_config()); });
    const std::string file = (dir / "model.safetensors").string();
    EXPECT_TRUE(line.starts_with(file)) << line;
    return line.substr(std::min(file.size(), line.size()));
  }
  uint16_t loaded_all_the_same(const std::string& tensor, size_t index) const {
    const TempDir dir;
    write_model(dir, tensors_);
    const auto weights =
        ModelWeights::materialise(open_checkpoint_weights(dir.path(), tiny_config(), NotFinite::kLoaded));
    return weights.matrix(tensor).bf16[index];
  }

 private:
  std::vector<TestTensor> tensors_;
};

constexpr const char* kMatrixName = "model.layers.0.mlp.up_proj.weight";  // [32, 64]
constexpr const char* kRefusal =
    ": tensor \"{}\": element {} is {}; --allow-nonfinite (allow_nonfinite) loads it";

TEST(ModelWeights, AreRefusedWithTheFirstElementThatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    SpoiltModel bf16("BF16");
    bf16.put(kMatrixName, 2 * 64 + 5, float_to_bf16(value));
    bf16.put(kMatrixName, 2 * 64 + 6, float_to_bf16(kNan));
    bf16.put(kMatrixName, 20 * 64, float_to_bf16(kNan));
    EXPECT_EQ(bf16.refusal(), fmt::format(kRefusal, kMatrixName, "[2, 5]", value));
    EXPECT_EQ(bf16.loaded_all_the_same(kMatrixName, 2 * 64 + 5), float_to_bf16(value));
    SpoiltModel f32("F32");
    f32.put(llama_tensor::kFinalNorm, 63, value);
    EXPECT_EQ(f32.refusal(), fmt::format(kRefusal, llama_tensor::kFinalNorm, "[63]", value));
  }
  SpoiltModel f16("F16");
  f16.put(kMatrixName, 0, uint16_t{0xFC00});
  EXPECT_EQ(f16.refusal(), fmt::format(kRefusal, kMatrixName, "[0, 0]", -kInfinity));
}

TEST(ModelWeights, AreRefusedWhereBf16CannotHoldThem) {
  constexpr float kMostOfBf16 = 0x1.FEp127F;
  constexpr float kRoundsToInfinity = 0x1.FFp127F;  // halfway between the largest bf16 and 2^128
  SpoiltModel model("F32");
  model.put(kMatrixName, 63, std::nextafter(kRoundsToInfinity, 0.0F));
  EXPECT_EQ(model.loaded_all_the_same(kMatrixName, 63), float_to_bf16(kMostOfBf16));
  model.put(kMatrixName, 64, -kRoundsToInfinity);
  EXPECT_EQ(model.refusal(), fmt::format(kRefusal, kMatrixName, "[1, 0]",
                                         fmt::format("{}, more than bf16 can hold", -kRoundsToInfinity)));
  EXPECT_EQ(model.loaded_all_the_same(kMatrixName, 64), 0xFF80);
}

TEST(FirstNotFinite, FindsItAnywhere) {
  std::vector<uint16_t> bf16(20000);
  for (size_t i = 0; i < bf16.size(); ++i) bf16[i] = static_cast<uint16_t>(i % 2 == 0 ? 0x7F7F : 0xFF7F);
  EXPECT_EQ(first_not_finite(bf16), bf16.size());
  EXPECT_EQ(first_not_finite({}), 0U);
  for (const size_t at : {19999, 12288, 12287, 4096, 1, 0}) {
    for (const uint16_t bits : {0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF}) {
      bf16[at] = bits;
      EXPECT_EQ(first_not_finite(bf16), at);
      EXPECT_EQ(first_not_finite(std::span(bf16).first(at)), at);
    }
  }
}

TEST(ModelWeights, LogConversionsOnce) {
  const TempDir dir;
  write_model(dir, tiny_tensors("F16"));
  const std::string log = log_of([&] { ModelWeights::load(dir.path(), tiny_config()); });
  EXPECT_THAT(log, HasSubstr("11 F16 tensors rounded to the nearest bf16"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
}

TEST(ModelWeights, LogNothingForBf16) {
  const TempDir dir;
  write_model(dir, tiny_tensors("BF16"));
  EXPECT_EQ(log_of([&] { ModelWeights::load(dir.path(), tiny_config()); }), "");
}

TEST(ModelWeights, WarnOfTensorsThatTheModelDoesNotUse) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16");
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "BF16", {1}, "xx"});
  const TempDir dir;
  write_model(dir, tensors);
  EXPECT_THAT(log_of([&] { ModelWeights::load(dir.path(), tiny_config()); }),
              HasSubstr("1 tensor that the model does not use: \"model.layers.0.self_attn.q_proj.bias\""));
}

TEST(ModelWeights, IgnoreRotaryTablesAndARepeatedLmHead) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16", false);
  tensor_named(tensors, "lm_head.weight").data = tensor_named(tensors, "model.embed_tokens.weight").data;
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "xxxx"});
  const TempDir dir;
  write_model(dir, tensors);
  EXPECT_EQ(log_of([&] { ModelWeights::load(dir.path(), tiny_config(true)); }), "");
}

// As models for embeddings are stored: without the LM head, and without its prefix.
TEST(ModelWeights, MayHaveNamesWithoutThePrefix) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16", true);
  for (TestTensor& tensor : tensors) tensor.name.erase(0, std::string_view("model.").size());
  const TempDir dir;
  write_model(dir, tensors);
  EXPECT_EQ(log_of([&] { expect_tiny_values(ModelWeights::load(dir.path(), tiny_config(true)), true); }), "");
}

TEST(ModelWeights, OfAModelThatPoolsHaveNoLmHead) {
  LlamaConfig config = tiny_config(false);
  config.pools = true;
  std::vector<TestTensor> tensors = tiny_tensors("BF16", false);
  const TempDir with, without;
  write_model(with, tensors);
  EXPECT_EQ(log_of([&] { ModelWeights::load(with.path(), config); }), "") << "it is not needed";
  std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name == "lm_head.weight"; });
  write_model(without, tensors);
  const ModelWeights weights = ModelWeights::load(without.path(), config);
  EXPECT_THROW(weights.matrix("lm_head.weight"), Error);
}

// The configuration of a directory with these tensors and tie_word_embeddings true.
LlamaConfig config_beside(const std::vector<TestTensor>& tensors) {
  const TempDir dir;
  dir.write("config.json", tiny_config_json(true));
  write_model(dir, tensors);
  return load_config(dir.path());
}

TEST(TiedWeights, ADifferentStoredLmHeadIsKept) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16", false);
  LlamaConfig config;
  EXPECT_THAT(log_of([&] { config = config_beside(tensors); }),
              HasSubstr("lm_head.weight differs from model.embed_tokens.weight: both are used"));
  EXPECT_FALSE(config.tie_word_embeddings);
  tensor_named(tensors, "lm_head.weight").data = tensor_named(tensors, "model.embed_tokens.weight").data;
  EXPECT_EQ(log_of([&] { config = config_beside(tensors); }), "");
  EXPECT_TRUE(config.tie_word_embeddings);
  tensor_named(tensors, "lm_head.weight").data.back() ^= 1;
  EXPECT_FALSE(config_beside(tensors).tie_word_embeddings);
}

TEST(TiedWeights, AreTheSameInAnotherType) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16", false);
  TestTensor& head = tensor_named(tensors, "lm_head.weight");
  head.dtype = "F32";
  head.data.clear();
  for (size_t i = 0; i < 24 * 64; ++i)
    head.data += bytes_of<float>({tiny_value("model.embed_tokens.weight", i)});
  EXPECT_TRUE(config_beside(tensors).tie_word_embeddings);
  head.shape = {12, 128};
  EXPECT_FALSE(config_beside(tensors).tie_word_embeddings);
}

TEST(TiedWeights, TheEmbeddingMayBeStoredAsTheLmHead) {
  std::vector<TestTensor> tensors = tiny_tensors("BF16", true);
  tensor_named(tensors, "model.embed_tokens.weight").name = "lm_head.weight";
  const TempDir dir;
  write_model(dir, tensors);
  const ModelWeights weights = ModelWeights::load(dir.path(), tiny_config(true));
  EXPECT_EQ(bf16_to_float(weights.matrix(llama_tensor::kEmbedding).bf16[7]),
            tiny_value("model.embed_tokens.weight", 7));
  EXPECT_EQ(weights.matrix(llama_tensor::kLmHead).bf16, weights.matrix(llama_tensor::kEmbedding).bf16);
}

TEST(ModelWeights, RefuseAnUnknownName) {
  const ModelWeights weights = ModelWeights::random(tiny_config(), 1);
  EXPECT_EQ(error_of([&] { weights.matrix("model.norm"); }, ErrorKind::kUsage),
            "weights: the model has no tensor \"model.norm\"");
}

TEST(ModelWeights, ReportProgressUpToTheLastByte) {
  const TempDir dir;
  write_model(dir, tiny_tensors("BF16"));
  const LlamaConfig config = tiny_config();
  int64_t last = -1;
  const auto progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, config.weight_bytes());
    EXPECT_GE(done, last);
    last = done;
  };
  ModelWeights::load(dir.path(), config, progress);
  EXPECT_EQ(last, config.weight_bytes());
  last = -1;
  ModelWeights::random(config, 1, progress);
  EXPECT_EQ(last, config.weight_bytes());
}

// Reads all tensors `step` elements at a time and compares them with the materialised weights.
void expect_reads_as_materialised(const std::shared_ptr<const WeightSource>& source, int64_t step) {
  const ModelWeights weights = ModelWeights::materialise(source);
  for (size_t t = 0; t < source->specs().size(); ++t) {
    const WeightSpec& spec = source->specs()[t];
    EXPECT_EQ(source->index_of(spec.name), t);
    std::vector<uint16_t> read(static_cast<size_t>(spec.elements()));
    for (int64_t first = 0; first < spec.elements(); first += step) {
      const auto count = static_cast<size_t>(std::min(step, spec.elements() - first));
      source->fetch(t, first, static_cast<int64_t>(count));
      source->read(t, first, std::span(read).subspan(static_cast<size_t>(first), count));
    }
    EXPECT_TRUE(std::equal(read.begin(), read.end(), weights.matrix(spec.name).bf16)) << spec.name;
  }
}

TEST(WeightSource, OfACheckpointIsReadInPieces) {
  for (const char* dtype : {"BF16", "F16", "F32"}) {
    for (const size_t padding : {0, 3}) {
      const TempDir dir;
      write_model(dir, tiny_tensors(dtype), padding);
      const std::shared_ptr<const WeightSource> source = open_checkpoint_weights(dir.path(), tiny_config());
      expect_reads_as_materialised(source, 24);
      EXPECT_EQ(source->total_bytes(), tiny_config().weight_bytes());
      EXPECT_EQ(source->seed(), std::nullopt);
    }
  }
}

TEST(WeightSource, OfRandomWeightsIsReadInPieces) {
  const std::shared_ptr<const WeightSource> source = make_random_weights(tiny_config(), 9);
  expect_reads_as_materialised(source, 24);
  EXPECT_EQ(source->seed(), 9U);
  EXPECT_EQ(source->in_place(0), nullptr);
}

TEST(WeightSource, RefusesAnUnknownName) {
  EXPECT_EQ(error_of([] { (void)make_random_weights(tiny_config(), 1)->index_of("x"); }, ErrorKind::kUsage),
            "weights: the model has no tensor \"x\"");
}

TEST(WeightPieces, AnExceptionStopsAllPiecesAndReachesTheCaller) {
  const std::vector<WeightPiece> pieces(1000, WeightPiece{0, 0, 1});
  std::atomic<int> run = 0;
  const auto fail = [&](const WeightPiece&) {
    if (++run == 3) throw Error(ErrorKind::kOutOfMemory, "no more");
    std::this_thread::sleep_for(
        std::chrono::milliseconds(1));  // otherwise many threads could finish all pieces before the failure
  };
  EXPECT_EQ(error_of([&] { for_each_weight_piece(pieces, fail, 1000, {}); }, ErrorKind::kOutOfMemory),
            "no more");
  EXPECT_LT(run, 1000);
}

// The message must not depend on which thread runs a piece.
TEST(WeightPieces, TheFailureOfTheFirstPieceReachesTheCaller) {
  std::vector<WeightPiece> pieces;
  for (int64_t i = 0; i < 1000; ++i) pieces.push_back({0, i, 1});
  const auto fail = [&](const WeightPiece& piece) {
    if (piece.first == 40) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (piece.first >= 40) throw Error(ErrorKind::kRuntime, std::to_string(piece.first));
  };
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(error_of([&] { for_each_weight_piece(pieces, fail, 1000, {}); }), "40");
}

TEST(RandomModelWeights, AreThoseOfTheHash) {
  LlamaConfig config = tiny_config(false);
  config.vocab_size = 40000;  // more than one piece, the last one short
  const ModelWeights weights = ModelWeights::random(config, 9);
  for (const WeightSpec& spec : config.weights()) {
    const Matrix matrix = weights.matrix(spec.name);
    const uint64_t key = random_tensor_key(spec.name, 9);
    const float scale = random_matrix_scale(spec.cols);
    for (int64_t i = 0; i < spec.elements(); ++i)
      ASSERT_EQ(matrix.bf16[i], spec.kind == WeightKind::kNorm ? random_norm_element(key, i)
                                                               : random_matrix_element(key, i, scale))
          << spec.name << " element " << i;
  }
}

TEST(RandomModelWeights, SayHowMuchMemoryIsMissing) {
  LlamaConfig config = preset_config("llama-3.1-70b");
  config.num_layers = ConfigLimits::kMaxLayers;
  EXPECT_THAT(error_of([&] { ModelWeights::random(config, 1); }, ErrorKind::kOutOfMemory),
              HasSubstr("llama-3.1-70b: random weights: needs 1756."));
}

}  // namespace
}  // namespace serval
