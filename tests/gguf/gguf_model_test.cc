// A GGUF file gives the same configuration and weights as a directory with the same model.
#include "models/gguf/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "fmt/format.h"

#include "models/checkpoint/weights.h"
#include "models/gguf/dequantise.h"
#include "models/gguf/tensor_names.h"
#include "tests/gguf/gguf_bytes.h"
#include "tests/llama/configs.h"
#include "vm/base/bf16.h"
#include "vm/layout/weight_rows.h"

namespace serval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHeadDim = 64;

// The rows in the order of llama.cpp's converter (convert_hf_to_gguf.py, LlamaModel.permute).
std::string interleaved_rows(const std::string& data, int64_t rows) {
  const size_t row_bytes = data.size() / static_cast<size_t>(rows);
  std::string out;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / kHeadDim, within = row % kHeadDim;
    const int64_t from = head * kHeadDim + within % 2 * (kHeadDim / 2) + within / 2;
    out += data.substr(static_cast<size_t>(from) * row_bytes, row_bytes);
  }
  return out;
}

uint32_t type_number(const std::string& dtype) {
  return dtype == "F32" ? kGgmlF32 : dtype == "F16" ? kGgmlF16 : kGgmlBf16;
}

GgufBytes tiny_fields(const std::string& architecture = "llama") {
  GgufBytes file;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  file.text("general.architecture", architecture).u32(key("block_count"), 1).u32(key("embedding_length"), 64);
  file.u32(key("feed_forward_length"), 32).u32(key("attention.head_count"), 2);
  file.u32(key("attention.head_count_kv"), 1).u32(key("attention.key_length"), 64);
  file.u32(key("attention.value_length"), 64).u32(key("rope.dimension_count"), 64);
  file.u32(key("context_length"), 128).f32(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  return file.f32(key("rope.freq_base"), 1e4F);
}

// The tiny model of tests/checkpoint with GGUF's names and order of rows.
void add_tiny_tensors(GgufBytes& file, const std::string& dtype, bool tied, size_t from = 0,
                      size_t to = SIZE_MAX) {
  const std::vector<TestTensor> tensors = tiny_tensors(dtype, tied);
  for (size_t i = from; i < std::min(to, tensors.size()); ++i) {
    const TestTensor& tensor = tensors[i];
    const std::string name = gguf_tensor_name(tensor.name);
    const bool reordered = name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight");
    std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    file.tensor(name, type_number(dtype), shape,
                reordered ? interleaved_rows(tensor.data, tensor.shape[0]) : tensor.data);
  }
}

std::string tiny_file(const std::string& dtype = "F32", bool tied = true) {
  GgufBytes file = tiny_fields();
  add_tiny_tensors(file, dtype, tied);
  return file.bytes();
}

std::shared_ptr<const ModelFiles> opened(const TempDir& dir, const std::string& file) {
  dir.write("tiny.gguf", file);
  return open_gguf_model(dir / "tiny.gguf");
}

// The error line of opening the file, without the file's name.
std::string refusal(const GgufBytes& file) {
  const TempDir dir;
  const std::string line = error_of([&] { opened(dir, file.bytes()); });
  const std::string path = (dir / "tiny.gguf").string() + ": ";
  EXPECT_TRUE(line.starts_with(path)) << line;
  return line.substr(std::min(path.size(), line.size()));
}

void expect_tiny_values(const ModelFiles& files) {
  const ModelWeights weights = ModelWeights::materialise(files.weights(NotFinite::kRefused));
  for (const WeightSpec& spec : files.model()->weights()) {
    const Matrix matrix = weights.matrix(spec.name);
    for (size_t i = 0; i < static_cast<size_t>(spec.elements()); ++i)
      ASSERT_EQ(bf16_to_float(matrix.bf16[i]), tiny_value(spec.name, i)) << spec.name << " element " << i;
  }
}

TEST(GgufModel, HasTheShapeThatItsMetadataGive) {
  const TempDir dir;
  const auto files = opened(dir, tiny_file());
  const Model& model = *files->model();
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.hidden_size, 64);
  EXPECT_EQ(model.intermediate_size, 32);
  EXPECT_EQ(model.num_layers, 1);
  EXPECT_EQ(model.num_heads, 2);
  EXPECT_EQ(model.num_kv_heads, 1);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.vocab_size, 24);
  EXPECT_EQ(model.max_position, 128);
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(static_cast<float>(model.parameters().at("rms_norm_eps")), 1e-5F);
  EXPECT_EQ(model.parameters().at("rope_theta"), 1e4);
  EXPECT_FALSE(files->has_tokenizer());
  EXPECT_FALSE(opened(dir, tiny_file("F32", false))->model()->tie_word_embeddings);
}

TEST(GgufModel, HasTheSpecialTokensOfItsMetadata) {
  GgufBytes file = tiny_fields();
  file.u32("tokenizer.ggml.bos_token_id", 3).u32("tokenizer.ggml.eos_token_id", 4);
  file.u32("tokenizer.ggml.eot_token_id", 5).u32("tokenizer.ggml.eom_token_id", 4);
  add_tiny_tensors(file, "F32", true);
  const TempDir dir;
  const auto files = opened(dir, file.bytes());
  EXPECT_EQ(files->model()->bos_id, 3);
  EXPECT_THAT(files->model()->eos_ids, ElementsAre(4, 5));
}

TEST(GgufModel, LoadsTheWeightsOfEveryPlainTypeWithQAndKInOrder) {
  for (const char* dtype : {"F32", "F16", "BF16"}) {
    for (const bool tied : {true, false}) {
      const TempDir dir;
      expect_tiny_values(*opened(dir, tiny_file(dtype, tied)));
    }
  }
}

// Expects that the rows of Q and K are not reordered for this architecture. `vectors` are the layer's
// additional vectors: name and size.
void expect_original_row_order(const char* architecture,
                               const std::vector<std::pair<const char*, int>>& vectors) {
  GgufBytes file = tiny_fields(architecture);
  for (const TestTensor& tensor : tiny_tensors("F32", true))
    file.tensor(gguf_tensor_name(tensor.name), kGgmlF32, {tensor.shape.begin(), tensor.shape.end()},
                tensor.data);
  for (const auto& [name, size] : vectors) {
    std::string data;
    const std::string weight = fmt::format("model.layers.0.self_attn.{}", name);
    for (int i = 0; i < size; ++i) data += number(tiny_value(weight, static_cast<size_t>(i)));
    file.tensor(gguf_tensor_name(weight), kGgmlF32, {static_cast<uint64_t>(size)}, data);
  }
  const TempDir dir;
  const auto files = opened(dir, file.bytes());
  EXPECT_EQ(files->model()->weights().size(), tiny_config().weights().size() + vectors.size());
  expect_tiny_values(*files);
}

TEST(GgufModel, KeepsTheRowOrderAndReadsTheBiasesOfQwen2) {
  expect_original_row_order("qwen2", {{"q_proj.bias", 128}, {"k_proj.bias", 64}, {"v_proj.bias", 64}});
}

TEST(GgufModel, KeepsTheRowOrderAndReadsTheHeadNormsOfQwen3) {
  expect_original_row_order("qwen3", {{"q_norm.weight", 64}, {"k_norm.weight", 64}});
}

TEST(GgufModel, ReadingInPiecesEqualsReadingAtOnce) {
  const TempDir dir;
  const auto files = opened(dir, tiny_file());
  const auto source = files->weights(NotFinite::kRefused);
  for (size_t t = 0; t < source->specs().size(); ++t) {
    const WeightSpec& spec = source->specs()[t];
    for (const int64_t step : {int64_t{1}, int64_t{7}, int64_t{100}}) {
      for (int64_t first = 0; first < spec.elements(); first += step) {
        std::vector<uint16_t> piece(static_cast<size_t>(std::min(step, spec.elements() - first)));
        source->read(t, first, piece);
        for (size_t i = 0; i < piece.size(); ++i)
          ASSERT_EQ(bf16_to_float(piece[i]), tiny_value(spec.name, static_cast<size_t>(first) + i))
              << spec.name;
      }
    }
  }
}

TEST(GgufModel, OpensASplitModelByItsFirstFile) {
  const TempDir dir;
  for (uint16_t number_of = 0; number_of < 3; ++number_of) {
    GgufBytes file;
    if (number_of == 0) file = tiny_fields();
    file.field("split.no", GgufValueType::kU16, number(number_of));
    file.field("split.count", GgufValueType::kU16, number<uint16_t>(3)).u32("split.tensors.count", 11);
    add_tiny_tensors(file, "F32", true, number_of * size_t{4}, number_of * size_t{4} + 4);
    dir.write(fmt::format("m-{:05}-of-00003.gguf", number_of + 1), file.bytes());
  }
  expect_tiny_values(*open_gguf_model(dir / "m-00001-of-00003.gguf"));
  EXPECT_THAT(error_of([&] { open_gguf_model(dir / "m-00002-of-00003.gguf"); }),
              HasSubstr("m-00002-of-00003.gguf: split.no: this is file 2 of a split model; give the first, "
                        "m-00001-of-00003.gguf"));
  std::filesystem::copy(dir / "m-00001-of-00003.gguf", dir / "renamed.gguf");
  EXPECT_THAT(error_of([&] { open_gguf_model(dir / "renamed.gguf"); }),
              HasSubstr("renamed.gguf: split.count: file 1 of 3; its name must end in -00001-of-00003.gguf"));
  std::filesystem::remove(dir / "m-00003-of-00003.gguf");
  EXPECT_THAT(error_of([&] { open_gguf_model(dir / "m-00001-of-00003.gguf"); }),
              HasSubstr("m-00003-of-00003.gguf: No such file"));
  std::filesystem::copy(dir / "m-00002-of-00003.gguf", dir / "m-00003-of-00003.gguf");
  EXPECT_THAT(error_of([&] { open_gguf_model(dir / "m-00001-of-00003.gguf"); }),
              HasSubstr("m-00003-of-00003.gguf: split.no: found 1, expected an integer from 2 to 2"));
}

TEST(GgufModel, RefusesWhatItCannotRunByName) {
  EXPECT_EQ(refusal(GgufBytes()), "general.architecture: missing");
  EXPECT_EQ(refusal(tiny_fields("gemma2")),
            "general.architecture: found \"gemma2\"; supported: llama, qwen2 and qwen3");
  EXPECT_EQ(refusal(tiny_fields()), "token_embd.weight: missing");
  const auto with_embedding = [] {
    GgufBytes file = tiny_fields();
    return file.tensor("token_embd.weight", kGgmlF32, {24, 64}, std::string(24 * 64 * 4, '\0'));
  };
  for (const char* key :
       {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
        "llama.attention.head_count", "llama.context_length", "llama.attention.layer_norm_rms_epsilon"}) {
    EXPECT_EQ(refusal(with_embedding().without(key)), fmt::format("{}: missing", key));
  }
  EXPECT_EQ(refusal(with_embedding().u32("llama.expert_count", 8)),
            "llama.expert_count: found 8; supported: models without it");
  EXPECT_EQ(refusal(with_embedding().f32("llama.logit_scale", 2)),
            "llama.logit_scale: found 2; supported: 1");
  EXPECT_EQ(refusal(with_embedding().text("llama.rope.scaling.type", "longrope")),
            "llama.rope.scaling.type: found \"longrope\"; supported: \"none\", \"linear\" and \"yarn\"");
  EXPECT_EQ(refusal(with_embedding().u32("llama.attention.sliding_window", 64)),
            "sliding_window: found 64; supported: attention to all positions");
  EXPECT_EQ(
      refusal(with_embedding().without("llama.rope.dimension_count").u32("llama.rope.dimension_count", 32)),
      "llama.rope.dimension_count: found 32; supported: 64, all of a head");
  EXPECT_EQ(
      refusal(
          with_embedding().without("llama.attention.head_count_kv").u32("llama.attention.head_count_kv", 3)),
      "num_key_value_heads: found 3, must divide num_attention_heads 2");
}

TEST(GgufModel, RefusesTensorsThatAreMissingMisshapenOrUnknown) {
  const auto line = [](GgufBytes file, size_t count) {
    const TempDir dir;
    add_tiny_tensors(file, "F32", true, 0, count);
    const auto files = opened(dir, file.bytes());
    return error_of([&] { files->weights(NotFinite::kRefused); });
  };
  EXPECT_THAT(line(tiny_fields(), 10),
              HasSubstr("tensor \"output_norm.weight\": missing, expected shape [64] by the metadata"));
  GgufBytes misshapen = tiny_fields();
  misshapen.tensor("output_norm.weight", kGgmlF32, {32}, std::string(128, '\0'));
  EXPECT_THAT(line(misshapen, 10),
              HasSubstr("tensor \"output_norm.weight\": found shape [32], expected shape [64]"));
  GgufBytes biased = tiny_fields();
  biased.tensor("blk.0.attn_q.bias", kGgmlF32, {128}, std::string(512, '\0'));
  EXPECT_THAT(
      line(biased, 11),
      HasSubstr("tensor \"blk.0.attn_q.bias\": models of the architecture llama are supported without it"));
}

TEST(GgufModel, RefusesWeightsThatAreNotFinite) {
  GgufBytes file = tiny_fields();
  add_tiny_tensors(file, "F32", true, 0, 10);
  std::string norm(256, '\0');
  norm.replace(12, 4, number(std::numeric_limits<float>::infinity()));
  file.tensor("output_norm.weight", kGgmlF32, {64}, norm);
  const TempDir dir;
  const auto files = opened(dir, file.bytes());
  EXPECT_THAT(error_of([&] { ModelWeights::materialise(files->weights(NotFinite::kRefused)); }),
              HasSubstr("tiny.gguf: tensor \"output_norm.weight\": element [3] is inf; --allow-nonfinite"));
  ModelWeights::materialise(files->weights(NotFinite::kLoaded));
}

// Blocks of 4-bit integers with scales, minima and codes of any bits.
std::string random_blocks(int64_t elements, bool has_minimum, uint32_t seed) {
  std::mt19937 random(seed);
  std::string data;
  for (int64_t block = 0; block < elements / 32; ++block) {
    for (int i = 0; i < (has_minimum ? 2 : 1); ++i)
      data += number<uint16_t>(static_cast<uint16_t>(random() % 0x3000 | (random() & 0x8000)));
    for (int i = 0; i < 16; ++i) data += static_cast<char>(random());
  }
  return data;
}

// The tiny model with the layer's matrices in this type: 2 is Q4_0, 3 is Q4_1.
GgufBytes file_in_4_bits(uint32_t type, std::string_view other = "", uint32_t other_type = 0) {
  GgufBytes file = tiny_fields();
  for (const TestTensor& tensor : tiny_tensors("F32")) {
    const std::string name = gguf_tensor_name(tensor.name);
    const std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    if (!tensor.name.ends_with("_proj.weight")) {
      file.tensor(name, kGgmlF32, shape, tensor.data);
      continue;
    }
    const int64_t elements = tensor.shape[0] * tensor.shape[1];
    const bool is_other = name == other;
    file.tensor(name, is_other ? other_type : type, shape,
                is_other ? std::string(static_cast<size_t>(elements / 32 * 34), '\1')
                         : random_blocks(elements, type == 3, static_cast<uint32_t>(name.size())));
  }
  return file;
}

// Each value is the block's, rounded once to fp16, with the rows of Q and K in their original order.
TEST(GgufModel, KeepsQ4) {
  for (const uint32_t type : {2U, 3U}) {
    const TempDir dir;
    const auto files = opened(dir, file_in_4_bits(type).bytes());
    const StoredFormats stored = files->stored_formats();
    EXPECT_EQ(stored.formats, WeightFormats{.layers = DType::kInt4G32});
    EXPECT_EQ(stored.layers_reason, "");
    const auto in_4_bits = files->model()->with_formats(stored.formats);
    const auto kept = ModelWeights::materialise(files->weights(NotFinite::kRefused, *in_4_bits));
    const auto in_bf16 = ModelWeights::materialise(files->weights(NotFinite::kRefused));
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj"}) {
      SCOPED_TRACE(name);
      const std::string weight = fmt::format("model.layers.0.{}.weight", name);
      const Matrix matrix = kept.matrix(weight);
      ASSERT_EQ(matrix.dtype, DType::kInt4G32);
      const auto cols = static_cast<uint64_t>(matrix.cols);
      const bool reordered =
          weight.find("q_proj") != std::string::npos || weight.find("k_proj") != std::string::npos;
      const std::string blocks = random_blocks(matrix.rows * matrix.cols, type == 3,
                                               static_cast<uint32_t>(gguf_tensor_name(weight).size()));
      std::vector<float> values(cols);
      for (int64_t row = 0; row < matrix.rows; ++row) {
        const int64_t within = row % kHeadDim, half = kHeadDim / 2;
        const int64_t in_file = reordered ? row - within + 2 * (within % half) + within / half : row;
        const size_t row_bytes = blocks.size() / static_cast<size_t>(matrix.rows);
        const auto* from =
            reinterpret_cast<const std::byte*>(blocks.data()) + static_cast<size_t>(in_file) * row_bytes;
        (type == 3 ? decode_q4_1 : decode_q4_0)(from, cols / 32, values.data());
        const uint8_t* codes = matrix.codes + row * bytes_of_weights(matrix.dtype, 1, matrix.cols);
        for (uint64_t col = 0; col < cols; ++col) {
          const float value = value_in_row(matrix.dtype, codes, cols, col);
          ASSERT_EQ(value, values[col]) << row << ", " << col;
          ASSERT_EQ(in_bf16.matrix(weight).bf16[row * matrix.cols + static_cast<int64_t>(col)],
                    float_to_bf16(values[col]));
        }
      }
    }
  }
}

TEST(GgufModel, OneMatrixOfAnotherTypeLeavesTheLayersInBf16) {
  constexpr uint32_t kQ8_0 = kGgmlQ8_0;
  const TempDir dir;
  const StoredFormats stored =
      opened(dir, file_in_4_bits(2, "blk.0.ffn_down.weight", kQ8_0).bytes())->stored_formats();
  EXPECT_TRUE(stored.formats.all_bf16());
  EXPECT_EQ(stored.layers_reason, "tensor \"blk.0.ffn_down.weight\" is Q8_0, not Q4_0 or Q4_1");
  EXPECT_EQ(opened(dir, tiny_file())->stored_formats().layers_reason, "");
}

// rope_freqs of Llama 3.2, which its GGUF files have instead of config.json's rope_scaling.
std::vector<float> llama3_divisors(double factor) {
  std::vector<float> divisors;
  for (int pair = 0; pair < 32; ++pair) {
    const double turns = 8192 * std::pow(5e5, -pair / 32.0) / (2 * M_PI);
    const double kept = std::clamp((turns - 1) / 3, 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
  }
  return divisors;
}

TEST(GgufModel, RecognisesLlama3sRopeFactors) {
  GgufBytes file = tiny_fields();
  file.without("llama.rope.freq_base").f32("llama.rope.freq_base", 5e5F);
  file.tensor("rope_freqs.weight", kGgmlF32, {32}, bytes_of(llama3_divisors(32)));
  add_tiny_tensors(file, "F32", true);
  const TempDir dir;
  const auto files = opened(dir, file.bytes());
  const auto parameters = files->model()->parameters();
  EXPECT_EQ(parameters.at("rope_scaling.factor"), 32);
  EXPECT_EQ(parameters.at("rope_scaling.low_freq_factor"), 1);
  EXPECT_EQ(parameters.at("rope_scaling.high_freq_factor"), 4);
  EXPECT_EQ(parameters.at("rope_scaling.original_max_position_embeddings"), 8192);
  expect_tiny_values(*files);
}

LlamaConfig config_of(GgufBytes file) {
  add_tiny_tensors(file, "F32", true);
  const TempDir dir;
  return llama_config(*opened(dir, file.bytes())->model());
}

TEST(GgufModel, DividesFrequenciesByOtherRopeFactors) {
  std::vector<float> divisors = llama3_divisors(32);
  divisors[20] *= 1.01F;
  GgufBytes file = tiny_fields();
  file.tensor("rope_freqs.weight", kGgmlF32, {32}, bytes_of(divisors));
  const LlamaConfig config = config_of(file.f32("llama.rope.scaling.factor", 2));
  EXPECT_EQ(config.rope_divisors, divisors);
  EXPECT_EQ(config.rope_scaling, RopeScaling(LinearRopeScaling{2}));
}

TEST(GgufModel, RefusesInvalidRopeFactorsAndOtherArchitectures) {
  const auto with_divisors = [](const char* architecture, const std::vector<float>& divisors) {
    GgufBytes file = tiny_fields(architecture);
    file.tensor("rope_freqs.weight", kGgmlF32, {divisors.size()}, bytes_of(divisors));
    add_tiny_tensors(file, "F32", true);
    return refusal(file);
  };
  std::vector<float> divisors(32, 1);
  EXPECT_EQ(with_divisors("qwen2", divisors),
            "rope_freqs.weight: models of the architecture qwen2 are supported without it");
  divisors[3] = 0;
  EXPECT_EQ(with_divisors("llama", divisors),
            "rope_freqs.weight: factor 3 is 0, expected a number from 1e-06 to 1000000");
  divisors.pop_back();
  EXPECT_EQ(with_divisors("llama", divisors),
            "rope_freqs.weight: expected 32 factors of the type F32, one for each pair of a head");
}

// As llama.cpp: the default type is "linear", and the factor may have its older key.
TEST(GgufModel, ScalesRopeAsLlamaCpp) {
  const RopeScaling twice = LinearRopeScaling{2};
  EXPECT_EQ(config_of(tiny_fields().f32("llama.rope.scaling.factor", 2)).rope_scaling, twice);
  EXPECT_EQ(config_of(tiny_fields().f32("llama.rope.scale_linear", 2)).rope_scaling, twice);
  EXPECT_EQ(config_of(tiny_fields().f32("llama.rope.scale_linear", 0)).rope_scaling, RopeScaling());
  const auto typed = [](const char* type) {
    GgufBytes file = tiny_fields();
    file.text("llama.rope.scaling.type", type).f32("llama.rope.scaling.factor", 2);
    return file.u32("llama.rope.scaling.original_context_length", 64);
  };
  EXPECT_EQ(config_of(typed("none")).rope_scaling, RopeScaling());
  EXPECT_EQ(config_of(typed("linear")).rope_scaling, twice);
  const LlamaConfig yarn = config_of(typed("yarn").f32("llama.rope.scaling.yarn_beta_fast", 16));
  EXPECT_EQ(yarn.rope_scaling, RopeScaling(YarnRopeScaling{2, 16, 1, true, 64}));
  EXPECT_DOUBLE_EQ(yarn.rope_attention_factor, 1 + 0.1 * std::log(2));
  EXPECT_EQ(
      config_of(typed("yarn").without("llama.context_length").u32("llama.context_length", 256)).max_position,
      256);
}

TEST(GgufModel, TheAttentionFactorMultipliesYarnsOwn) {
  EXPECT_EQ(config_of(tiny_fields().f32("llama.rope.scaling.attn_factor", 1.5F)).rope_attention_factor, 1.5);
  GgufBytes file = tiny_fields();
  file.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  EXPECT_DOUBLE_EQ(config_of(file.f32("llama.rope.scaling.attn_factor", 1.5F)).rope_attention_factor,
                   1.5 * (1 + 0.1 * std::log(4)));
}

TEST(GgufModel, ScalesRopeOfEveryArchitecture) {
  for (const std::string architecture : {"llama", "qwen2", "qwen3"}) {
    GgufBytes file = tiny_fields(architecture);
    file.f32(architecture + ".rope.scaling.factor", 2);
    add_tiny_tensors(file, "F32", true);
    const TempDir dir;
    EXPECT_EQ(llama_config(*opened(dir, file.bytes())->model()).rope_scaling,
              RopeScaling(LinearRopeScaling{2}));
  }
}

TEST(GgufModel, RefusesFieldsThatChangeTheArithmetic) {
  const auto with = [](auto add) {
    GgufBytes file = tiny_fields();
    add(file);
    add_tiny_tensors(file, "F32", true);
    return refusal(file);
  };
  EXPECT_EQ(with([](auto& f) { f.boolean("llama.attention.causal", false); }),
            "llama.attention.causal: found false; supported: true");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.rope.scaling.factor", 2).f32("llama.rope.scale_linear", 3); }),
            "llama.rope.scale_linear: found 3, but llama.rope.scaling.factor is 2; expected one number");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.rope.scaling.factor", 0.5F); }),
            "llama.rope.scaling.factor: found 0.5, expected a number from 1 to 1000000");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.rope.scaling.yarn_ext_factor", 0.5F); }),
            "llama.rope.scaling.yarn_ext_factor: found 0.5; supported: 0");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.rope.scaling.yarn_attn_factor", 1.25F); }),
            "llama.rope.scaling.yarn_attn_factor: found 1.25; supported: 1");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.rope.scaling.yarn_log_multiplier", 0.5F); }),
            "llama.rope.scaling.yarn_log_multiplier: found 0.5; supported: models without it");
  EXPECT_EQ(with([](auto& f) { f.f32("llama.attention.scale", 0.5F); }),
            "llama.attention.scale: found 0.5; supported: 0.125");
  EXPECT_EQ(with([](auto& f) {
              f.i32s("llama.rope.dimension_sections", {0, 1});
            }),
            "llama.rope.dimension_sections: supported: models without it");
  EXPECT_EQ(with([](auto& f) { f.text("llama.hidden_activation", "gelu"); }),
            "llama.hidden_activation: found \"gelu\"; supported: \"silu\"");
  EXPECT_EQ(with([](auto& f) { f.u32("llama.vocab_size", 25); }),
            "llama.vocab_size: found 25, but token_embd.weight has 24 rows");
  EXPECT_EQ(with([](auto& f) { f.text("general.type", "adapter"); }),
            "general.type: found \"adapter\"; supported: \"model\"");
}

TEST(GgufModel, AcceptsFieldsWhoseValueChangesNothing) {
  GgufBytes file = tiny_fields();
  file.boolean("llama.attention.causal", true)
      .f32("llama.attention.scale", 0.125F)
      .u32("llama.vocab_size", 24);
  file.f32("llama.logit_scale", 0)
      .f32("llama.rope.scaling.yarn_ext_factor", -1)
      .text("general.type", "model");
  file.i32s("llama.rope.dimension_sections", {0, 0}).boolean("llama.rope.scaling.finetuned", true);
  file.text("llama.tensor_data_layout", "Meta AI original pth");
  EXPECT_EQ(config_of(file).rope_scaling, RopeScaling());
}

// llama.cpp's numbers of the kinds of pooling.
TEST(GgufModel, SaysHowItsEmbeddingsAreMade) {
  const auto pooling_of = [](uint32_t type) {
    GgufBytes file = tiny_fields();
    file.u32("llama.pooling_type", type);
    add_tiny_tensors(file, "F32", true);
    const TempDir dir;
    return opened(dir, file.bytes())->pooling();
  };
  EXPECT_EQ(pooling_of(0), std::nullopt);
  EXPECT_EQ(pooling_of(1), (PoolingConfig{Pooling::kMean, true}));
  EXPECT_EQ(pooling_of(2), (PoolingConfig{Pooling::kCls, true}));
  EXPECT_EQ(pooling_of(3), (PoolingConfig{Pooling::kLast, true}));
  EXPECT_THAT(error_of([&] { pooling_of(4); }),
              HasSubstr("llama.pooling_type: found 4; supported: 1 (mean)"));
}

TEST(GgufModel, NeedsNoLmHeadToPool) {
  const TempDir dir;
  const auto files = opened(dir, tiny_file("F32", false));
  const auto model = files->model()->pooling();
  const ModelWeights weights = ModelWeights::materialise(files->weights(NotFinite::kRefused, *model));
  EXPECT_THROW(weights.matrix("lm_head.weight"), Error);
  EXPECT_EQ(weights.matrix("model.norm.weight").cols, model->hidden_size);
}

TEST(GgufTensorNames, AreThoseOfLlamaCpp) {
  EXPECT_EQ(gguf_tensor_name("model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(gguf_tensor_name("lm_head.weight"), "output.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.12.self_attn.k_norm.weight"), "blk.12.attn_k_norm.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.self_attn.q_proj.bias"), "blk.0.attn_q.bias");
  EXPECT_EQ(gguf_tensor_name("model.layers.0.other.weight"), "");
  EXPECT_EQ(gguf_tensor_name("x"), "");
}

}  // namespace
}  // namespace serval
