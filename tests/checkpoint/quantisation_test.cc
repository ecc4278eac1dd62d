// Configurations of quantised checkpoints: what they mean, and what is refused by name.
#include "models/checkpoint/quantised/quantisation.h"

#include "nlohmann/json.hpp"

#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kUp = "model.layers.0.mlp.up_proj";

std::optional<Quantisation> read(const json& config) {
  return read_quantisation(JsonFields(config, "config.json"));
}

Quantisation read_config(const json& quantisation) {
  return read({{"quantization_config", quantisation}}).value();
}

// The error line without "config.json: quantization_config.".
std::string error_with(const json& quantisation) {
  const std::string line = error_of([&] { read_config(quantisation); });
  const std::string prefix = "config.json: quantization_config.";
  EXPECT_THAT(line, StartsWith(prefix));
  return line.substr(std::min(prefix.size(), line.size()));
}

json with(json object, const json& changes) {
  if (changes.is_object()) object.update(changes);
  return object;
}

json fp8() {
  return {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
}
json gptq() {
  return {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"desc_act", false}};
}
json awq() {
  return {
      {"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"zero_point", true}, {"version", "gemm"}};
}
json weights(const json& changes = json::object()) {
  return with(
      {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 32}, {"symmetric", true}},
      changes);
}
json compressed(const json& group, const json& changes = json::object()) {
  return with({{"quant_method", "compressed-tensors"},
               {"format", "pack-quantized"},
               {"config_groups", {{"group_0", with({{"targets", {"Linear"}}}, group)}}},
               {"ignore", {"lm_head"}}},
              changes);
}

TEST(Quantisation, IsAbsentFromAPlainConfig) {
  EXPECT_FALSE(read(json::object()));
  EXPECT_FALSE(read({{"quantization_config", nullptr}}));
}

TEST(Quantisation, UnknownMethodsAreRefusedWithTheSupportedOnes) {
  EXPECT_EQ(
      error_with({{"quant_method", "bitsandbytes"}}),
      "quant_method: found \"bitsandbytes\"; supported: awq, compressed-tensors, fbgemm_fp8, fp8, gptq, "
      "modelopt");
  EXPECT_EQ(error_with({{"bits", 4}}), "quant_method: missing");
  EXPECT_THAT(error_of([] { read({{"quantization_config", "fp8"}}); }), HasSubstr("expected a JSON object"));
  EXPECT_THAT(error_of([] {
                read({{"quantization_config", fp8()}, {"compression_config", fp8()}});
              }),
              HasSubstr("compression_config: set either"));
}

TEST(Quantisation, ConfigJsonIsRefusedBeforeWeightsAreOpened) {
  json config = json::parse(tiny_config_json(true));
  config["quantization_config"] = {{"quant_method", "hqq"}};
  EXPECT_THAT(error_of([&] { parse_config(config.dump(), "config"); }),
              StartsWith("config: quantization_config.quant_method: found \"hqq\""));
  config["quantization_config"] = fp8();
  EXPECT_NO_THROW(parse_config(config.dump(), "config"));
}

TEST(Fp8, HasBlocksOrAScaleForAMatrixOrRow) {
  EXPECT_EQ(read_config(fp8()).text(), "fp8: e4m3 in blocks of 128 × 128");
  EXPECT_EQ(read_config(with(fp8(), {{"weight_block_size", nullptr}})).text(),
            "fp8: e4m3 with a scale per matrix or row");
  EXPECT_EQ(read_config({{"quant_method", "fbgemm_fp8"}}).text(), "fbgemm_fp8: e4m3 with a scale per row");
  for (const json& size : {json::array({128}), json::array({0, 128}), json::array({128, 1 << 21}), json(128)})
    EXPECT_THAT(error_with(with(fp8(), {{"weight_block_size", size}})),
                StartsWith("weight_block_size: found"));
  EXPECT_THAT(error_with(with(fp8(), {{"fmt", "e5m2"}})), StartsWith("fmt: found \"e5m2\""));
  EXPECT_THAT(error_with(with(fp8(), {{"activation_scheme", "x"}})), StartsWith("activation_scheme: found"));
  EXPECT_THAT(error_with(with(fp8(), {{"scale_fmt", "e4m3"}})), StartsWith("scale_fmt: found"));
}

TEST(Fp8, SaysThatKeysStay16BitsWideAndThatStaticScalesAreNotUsed) {
  const Quantisation quantisation =
      read_config(with(fp8(), {{"kv_cache_scheme", "static"}, {"activation_scheme", "static"}}));
  EXPECT_TRUE(quantisation.e4m3_inputs);
  EXPECT_THAT(
      quantisation.notices,
      ElementsAre(
          "config.json: quantization_config.activation_scheme: activations in 8 bits have a scale for "
          "each row, not the checkpoint's static ones",
          "config.json: quantization_config.kv_cache_scheme: keys and values stay in bf16, not "
          "in 8 bits"));
  EXPECT_THAT(read_config(fp8()).notices, ElementsAre());
  EXPECT_THAT(error_with(with(fp8(), {{"kv_cache_scheme", "int4"}})), StartsWith("kv_cache_scheme: found"));
}

TEST(ModulesToNotConvert, AreWholePartsOfNames) {
  for (const char* key : {"modules_to_not_convert", "ignored_layers"}) {
    const Quantisation quantisation =
        read_config(with(fp8(), {{key, {"lm_head", "model.layers.1", "down_proj"}}}));
    EXPECT_EQ(quantisation.scheme_of("lm_head"), nullptr);
    EXPECT_EQ(quantisation.scheme_of("model.layers.1.mlp.up_proj"), nullptr);
    EXPECT_EQ(quantisation.scheme_of("model.layers.3.mlp.down_proj"), nullptr);
    EXPECT_NE(quantisation.scheme_of("model.layers.10.mlp.up_proj"), nullptr);
    EXPECT_NE(quantisation.scheme_of("model.layers.0.mlp.up_proj"), nullptr);
  }
  EXPECT_THAT(error_with(with(fp8(), {{"modules_to_not_convert", "lm_head"}})),
              StartsWith("modules_to_not_convert: found \"lm_head\", expected a list"));
  EXPECT_THAT(error_with(with(fp8(), {{"modules_to_not_convert", {1}}})),
              StartsWith("modules_to_not_convert: found 1"));
}

TEST(ModelOpt, IsReadInBothPlaces) {
  const json algorithm = {
      {"quant_algo", "FP8"}, {"kv_cache_quant_algo", "FP8"}, {"exclude_modules", {"lm_head", "*layers.1.*"}}};
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("hf_quant_config.json",
            json{{"producer", {{"name", "modelopt"}}}, {"quantization", algorithm}}.dump());
  const Quantisation beside = read_quantisation(dir.path()).value();
  const Quantisation within =
      read_config({{"quant_method", "modelopt"},
                   {"quant_algo", "FP8"},
                   {"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}}},
                   {"ignore", {"lm_head", "*layers.1.*"}}});
  for (const Quantisation& quantisation : {beside, within}) {
    EXPECT_EQ(quantisation.text(), "modelopt: e4m3 with a scale per matrix");
    EXPECT_EQ(quantisation.scheme_of("lm_head"), nullptr);
    EXPECT_EQ(quantisation.scheme_of("model.layers.1.mlp.up_proj"), nullptr);
    EXPECT_NE(quantisation.scheme_of("model.layers.11.mlp.up_proj"), nullptr);
    EXPECT_EQ(quantisation.notices.size(), 2U);
  }
  EXPECT_THAT(error_with({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}),
              StartsWith("quant_algo: found \"NVFP4\"; supported: fp8"));
  EXPECT_THAT(
      error_with({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"kv_cache_quant_algo", "NVFP4"}}),
      StartsWith("kv_cache_quant_algo: found \"NVFP4\""));
}

TEST(Gptq, HasBitsGroupsAndAVersionOfZeroPoints) {
  const Quantisation quantisation = read_config(gptq());
  EXPECT_EQ(quantisation.text(), "gptq: 4-bit integers in groups of 128");
  EXPECT_THAT(quantisation.notices, IsEmpty());
  EXPECT_TRUE(quantisation.scheme_of(kUp)->zeros_less_one);
  EXPECT_FALSE(read_config(with(gptq(), {{"checkpoint_format", "gptq_v2"}})).scheme_of(kUp)->zeros_less_one);
  EXPECT_FALSE(read_config(with(gptq(), {{"format", "gptq_v2"}})).scheme_of(kUp)->zeros_less_one);
  EXPECT_TRUE(read_config(with(gptq(), {{"desc_act", true}})).scheme_of(kUp)->needs_g_idx);
  EXPECT_EQ(read_config(with(gptq(), {{"bits", 8}, {"group_size", -1}})).text(),
            "gptq: 8-bit integers with a scale per row");
  EXPECT_EQ(error_with(with(gptq(), {{"bits", 3}})), "bits: found 3; supported: 4 and 8");
  EXPECT_THAT(error_with(with(gptq(), {{"group_size", 0}})), StartsWith("group_size: found 0"));
  EXPECT_THAT(error_with(with(gptq(), {{"checkpoint_format", "marlin"}})),
              StartsWith("checkpoint_format: found"));
  EXPECT_THAT(error_with(with(gptq(), {{"is_marlin_format", true}})),
              StartsWith("is_marlin_format: found true"));
  EXPECT_THAT(error_with(with(gptq(), {{"dynamic", {{"-:.*", json::object()}}}})),
              StartsWith("dynamic: found"));
  EXPECT_THAT(error_with(with(gptq(), {{"pack_dtype", "int16"}})), StartsWith("pack_dtype: found"));
}

TEST(Gptq, IsReadFromItsOwnFile) {
  const TempDir dir;
  dir.write("config.json", "{}");
  EXPECT_FALSE(read_quantisation(dir.path()));
  dir.write("quantize_config.json", R"({"bits": 4, "group_size": 64, "desc_act": true})");
  EXPECT_EQ(read_quantisation(dir.path()).value().text(), "gptq: 4-bit integers in groups of 64");
  dir.write("quantize_config.json", R"({"bits": 4, "group_size": 64, "quant_method": "awq"})");
  EXPECT_EQ(read_quantisation(dir.path()).value().text(), "awq: 4-bit integers in groups of 64");
  dir.write("quantize_config.json", R"({"bits": 5})");
  EXPECT_EQ(error_of([&] { (void)read_quantisation(dir.path()); }),
            (dir / "quantize_config.json").string() + ": bits: found 5; supported: 4 and 8");
  // config.json wins.
  dir.write("config.json", json{{"quantization_config", awq()}}.dump());
  EXPECT_EQ(read_quantisation(dir.path()).value().method, "awq");
}

TEST(Awq, HasOneVersion) {
  EXPECT_EQ(read_config(awq()).text(), "awq: 4-bit integers in groups of 128");
  EXPECT_THAT(error_with(with(awq(), {{"version", "gemv"}})), StartsWith("version: found \"gemv\""));
  EXPECT_THAT(error_with(with(awq(), {{"bits", 8}})), StartsWith("bits: "));
  EXPECT_THAT(error_with(with(awq(), {{"zero_point", false}})), StartsWith("zero_point: found false"));
}

TEST(CompressedTensors, HasASchemeForEachGroupOfModules) {
  const json groups = {
      {"group_0", {{"targets", {"Linear"}}, {"weights", weights()}}},
      {"group_1", {{"targets", {"re:.*[.]down_proj", "lm_head"}}, {"weights", weights({{"num_bits", 8}})}}},
      {"group_2",
       {{"targets", {"model.layers.1.mlp.down_proj"}},
        {"weights", weights({{"strategy", "channel"}, {"group_size", nullptr}})}}}};
  const Quantisation quantisation = read_config({{"quant_method", "compressed-tensors"},
                                                 {"format", "pack-quantized"},
                                                 {"config_groups", groups},
                                                 {"ignore", {"re:.*k_proj"}}});
  EXPECT_EQ(
      quantisation.text(),
      "compressed-tensors: 4-bit integers in groups of 32, 8-bit integers in groups of 32, 4-bit integers "
      "with a scale per row");
  EXPECT_EQ(quantisation.scheme_of(kUp)->bits(), 4);
  EXPECT_EQ(quantisation.scheme_of("model.layers.0.mlp.down_proj")->bits(), 8);
  EXPECT_EQ(quantisation.scheme_of("model.layers.1.mlp.down_proj")->granularity, Granularity::kRow);
  EXPECT_EQ(quantisation.scheme_of("lm_head")->bits(), 8);
  EXPECT_EQ(quantisation.scheme_of("model.layers.1.self_attn.k_proj"), nullptr);
  EXPECT_EQ(quantisation.scheme_of("model.embed_tokens"), nullptr);
}

TEST(CompressedTensors, IsReadUnderItsOldKey) {
  json config = compressed({{"weights", weights()}});
  config.erase("quant_method");
  EXPECT_EQ(read({{"compression_config", config}}).value().text(),
            "compressed-tensors: 4-bit integers in groups of 32");
}

TEST(CompressedTensors, FormatsMayBeMixed) {
  const json floats = weights({{"num_bits", 8},
                               {"type", "float"},
                               {"strategy", "block"},
                               {"group_size", nullptr},
                               {"block_structure", {128, 128}}});
  const json group = {{"weights", floats}, {"format", "float-quantized"}};
  EXPECT_EQ(read_config(compressed(group, {{"format", "mixed-precision"}})).text(),
            "compressed-tensors: e4m3 in blocks of 128 × 128");
  json old = group;
  old["weights"]["block_structure"] = "64x128";
  EXPECT_EQ(read_config(compressed(old)).text(), "compressed-tensors: e4m3 in blocks of 64 × 128");
  EXPECT_THAT(error_with(compressed({{"weights", weights()}}, {{"format", "mixed-precision"}})),
              StartsWith("config_groups.group_0.format: missing; supported: "));
}

TEST(CompressedTensors, ActivationsMayBeE4M3) {
  const auto activations = [](const char* type) {
    return json{{"num_bits", 8}, {"type", type}, {"strategy", "token"}, {"dynamic", true}};
  };
  const auto read = [](const json& found) {
    return read_config(compressed({{"weights", weights()}, {"input_activations", found}}));
  };
  EXPECT_TRUE(read(activations("float")).e4m3_inputs);
  EXPECT_THAT(read(activations("float")).notices, ElementsAre());
  EXPECT_FALSE(read(activations("int")).e4m3_inputs);
  EXPECT_FALSE(read_config(compressed({{"weights", weights()}})).e4m3_inputs);
}

TEST(CompressedTensors, SaysThatIntegerActivationsStay16BitsWide) {
  const json activations = {{"num_bits", 8}, {"type", "int"}, {"strategy", "token"}, {"dynamic", true}};
  const json group = {{"weights", weights()}, {"input_activations", activations}};
  const json kv_cache = {{"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}};
  EXPECT_THAT(read_config(compressed(group, {{"kv_cache_scheme", kv_cache}})).notices,
              ElementsAre(HasSubstr("group_0.input_activations: activations stay in bf16, not in 8 bits"),
                          HasSubstr("kv_cache_scheme: keys and values stay in bf16")));
  EXPECT_THAT(error_with(compressed(group, {{"kv_cache_scheme", {{"num_bits", 4}, {"type", "int"}}}})),
              StartsWith("kv_cache_scheme.num_bits: found 4"));
}

TEST(CompressedTensors, RefusesByNameWhatItCannotCompute) {
  const auto error = [](const json& changes, const json& of_config = json::object()) {
    return error_with(compressed({{"weights", weights(changes)}}, of_config));
  };
  EXPECT_THAT(error({{"num_bits", 3}}), StartsWith("config_groups.group_0.weights.num_bits: found 3"));
  EXPECT_THAT(error({{"type", "float"}}), StartsWith("config_groups.group_0.weights.type: found \"float\""));
  EXPECT_THAT(error({{"strategy", "tensor_group"}}),
              StartsWith("config_groups.group_0.weights.strategy: found"));
  EXPECT_THAT(error({{"strategy", "block"}}),
              StartsWith("config_groups.group_0.weights.block_structure: found null"));
  EXPECT_THAT(error({{"dynamic", true}}), StartsWith("config_groups.group_0.weights.dynamic: found true"));
  EXPECT_THAT(error({{"strategy", "tensor"}, {"symmetric", false}}),
              StartsWith("config_groups.group_0.weights.symmetric"));
  EXPECT_THAT(error({}, {{"format", "nvfp4-pack-quantized"}}), StartsWith("format: found"));
  EXPECT_THAT(error({}, {{"quantization_status", "frozen"}}),
              StartsWith("quantization_status: found \"frozen\""));
  EXPECT_THAT(error({}, {{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}),
              StartsWith("sparsity_config.format: found"));
  EXPECT_THAT(error({}, {{"transform_config", {{"config_groups", {{"u", 1}}}}}}),
              StartsWith("transform_config: found"));
  EXPECT_THAT(error({}, {{"ignore", {"re:("}}}), StartsWith("ignore: "));
  EXPECT_THAT(error({}, {{"config_groups", json::object()}}), StartsWith("config_groups: found 0 groups"));
  EXPECT_THAT(error_with(compressed({{"weights", nullptr}})),
              StartsWith("config_groups.group_0.weights: missing"));
  EXPECT_THAT(error_with(compressed({{"weights", weights()}, {"output_activations", {{"num_bits", 8}}}})),
              StartsWith("config_groups.group_0.output_activations: found"));
}

}  // namespace
}  // namespace serval
