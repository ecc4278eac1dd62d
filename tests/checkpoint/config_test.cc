#include "models/llama/config.h"

#include <cmath>
#include <limits>

#include "nlohmann/json.hpp"

#include "models/generation_config.h"
#include "tests/checkpoint/test_files.h"
#include "tests/llama/configs.h"

namespace serval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json llama_3_2_1b() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
    "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
    "transformers_version": "4.45.0", "vocab_size": 128256})");
}

LlamaConfig parse(const json& document) {
  return parse_config(document.dump(), "config");
}

std::string error_with(const std::string& field, const json& value) {
  json document = llama_3_2_1b();
  document[field] = value;
  return error_of([&] { parse(document); });
}

TEST(Config, ReadsALlama32File) {
  const LlamaConfig config = parse(llama_3_2_1b());
  EXPECT_EQ(config.name, "config");
  EXPECT_EQ(config.hidden_size, 2048);
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_EQ(config.num_layers, 16);
  EXPECT_EQ(config.num_heads, 32);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.max_position, 131072);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope_theta, 500000);
  EXPECT_EQ(config.rope_scaling, RopeScaling(Llama3RopeScaling{32, 1, 4, 8192}));
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_ids, testing::ElementsAre(128001, 128008, 128009));
  EXPECT_EQ(config.bos_id, 128000);
}

TEST(Config, ReadsALlama2FileWithTransformersDefaults) {
  const LlamaConfig config = parse(json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000, "bos_token_id": 1, "eos_token_id": 2,
    "rope_scaling": null, "pad_token_id": null})"));
  EXPECT_EQ(config.num_kv_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position, 2048);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.rope_scaling, RopeScaling());
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_ids, testing::ElementsAre(2));
  EXPECT_EQ(config.num_parameters(), 6'738'415'616);
}

TEST(Config, ReadsTheRopeParametersOfTransformers5) {
  json document = llama_3_2_1b();
  document["rope_parameters"] = document["rope_scaling"];
  document["rope_parameters"]["rope_theta"] = 250000.0;
  document.erase("rope_scaling");
  document.erase("rope_theta");
  const LlamaConfig config = parse(document);
  EXPECT_EQ(config.rope_theta, 250000);
  EXPECT_EQ(std::get<Llama3RopeScaling>(config.rope_scaling).factor, 32);
}

TEST(Config, ReadsDefaultRopeParameters) {
  json document = llama_3_2_1b();
  document.erase("rope_scaling");
  document.erase("rope_theta");
  document["rope_parameters"] = {{"rope_theta", 10000.0}, {"rope_type", "default"}};
  EXPECT_EQ(parse(document).rope_scaling, RopeScaling());
}

TEST(Config, HeadDimIsHiddenSizeOverHeadsUnlessStated) {
  json document = llama_3_2_1b();
  document.erase("head_dim");
  EXPECT_EQ(parse(document).head_dim, 64);
  document["num_attention_heads"] = 24;
  EXPECT_THAT(error_of([&] { parse(document); }), HasSubstr("head_dim: missing, and hidden_size 2048"));
}

TEST(Config, HeadsTimesHeadDimNeedNotBeHiddenSize) {
  json document = llama_3_2_1b();
  document["head_dim"] = 128;
  EXPECT_EQ(parse(document).head_dim, 128);
}

TEST(Config, TakesTheModelTypeOrTheArchitecture) {
  json document = llama_3_2_1b();
  document.erase("model_type");
  EXPECT_NO_THROW(parse(document));
  document["model_type"] = "llama";
  document.erase("architectures");
  EXPECT_NO_THROW(parse(document));
  document.erase("model_type");
  EXPECT_THAT(error_of([&] { parse(document); }), HasSubstr("architectures: missing"));
}

TEST(Config, NamesAnArchitectureThatIsNotKnown) {
  EXPECT_EQ(error_with("model_type", "gemma"),
            "config: model_type: found \"gemma\"; supported: \"llama\", \"mistral\", \"qwen2\", \"qwen3\"");
  EXPECT_EQ(error_with("architectures", {"GemmaForCausalLM"}),
            "config: architectures: found [\"GemmaForCausalLM\"]; supported: [\"LlamaForCausalLM\"], "
            "[\"MistralForCausalLM\"], [\"Qwen2ForCausalLM\"], [\"Qwen3ForCausalLM\"]");
  EXPECT_THAT(error_with("architectures", {"MistralForCausalLM"}),
              HasSubstr("found [\"MistralForCausalLM\"]"));
  EXPECT_THAT(error_with("architectures", 7), HasSubstr("architectures: found 7"));
}

// A config.json of another architecture.
json of_architecture(const char* model_type, const char* class_name) {
  json document = llama_3_2_1b();
  document["model_type"] = model_type;
  document["architectures"] = {class_name};
  return document;
}

// Models for embeddings are stored as the class without the LM head.
TEST(Config, ReadsTheClassWithoutTheLmHead) {
  EXPECT_NO_THROW(parse(of_architecture("llama", "LlamaModel")));
  EXPECT_NO_THROW(parse(of_architecture("qwen2", "Qwen2Model")));
  EXPECT_THAT(error_of([] { parse(of_architecture("llama", "Qwen2Model")); }), HasSubstr("Qwen2Model"));
}

TEST(Config, RefusesAttentionToLaterTokens) {
  EXPECT_EQ(error_with("is_causal", false), "config: is_causal: found false; supported: true");
}

TEST(Config, ReadsMistralWithoutAWindow) {
  json document = of_architecture("mistral", "MistralForCausalLM");
  document["sliding_window"] = nullptr;
  EXPECT_FALSE(parse(document).qkv_bias);
  document["sliding_window"] = 131072;  // covers all positions
  EXPECT_NO_THROW(parse(document));
}

TEST(Config, RefusesMistralWithAWindowInUse) {
  json document = of_architecture("mistral", "MistralForCausalLM");
  EXPECT_EQ(error_of([&] { parse(document); }),
            "config: sliding_window: missing, which means 4096; supported: null");
  document["sliding_window"] = 4096;
  EXPECT_EQ(error_of([&] { parse(document); }),
            "config: sliding_window: found 4096; supported: attention to all positions");
  document["sliding_window"] = nullptr;
  document.erase("num_key_value_heads");
  EXPECT_EQ(error_of([&] { parse(document); }), "config: num_key_value_heads: missing");
}

TEST(Config, ReadsQwen2WithItsBiases) {
  json document = of_architecture("qwen2", "Qwen2ForCausalLM");
  document["use_sliding_window"] = false;
  document["sliding_window"] = 4096;
  EXPECT_TRUE(parse(document).qkv_bias);
  document["use_sliding_window"] = true;
  EXPECT_EQ(error_of([&] { parse(document); }), "config: use_sliding_window: found true; supported: false");
}

TEST(Config, ReadsQwen3WithItsNormsOfHeads) {
  json document = of_architecture("qwen3", "Qwen3ForCausalLM");
  document["head_dim"] = 128;
  document["attention_bias"] = false;
  document["use_sliding_window"] = false;
  document["sliding_window"] = nullptr;
  document["max_window_layers"] = 28;
  const LlamaConfig config = parse(document);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.head_dim, 128);
  document["attention_bias"] = true;
  EXPECT_EQ(error_of([&] { parse(document); }), "config: attention_bias: found true; supported: false");
  document["attention_bias"] = false;
  document["use_sliding_window"] = true;
  EXPECT_EQ(error_of([&] { parse(document); }), "config: use_sliding_window: found true; supported: false");
  document["use_sliding_window"] = false;
  document.erase("head_dim");
  EXPECT_EQ(error_of([&] { parse(document); }), "config: head_dim: missing");
}

TEST(Config, RefusesOptionsThatChangeTheForwardPass) {
  EXPECT_EQ(error_with("logits_scaling", 8), "config: logits_scaling: found 8; supported: 1");
  EXPECT_EQ(error_with("hidden_act", "gelu"), "config: hidden_act: found \"gelu\"; supported: \"silu\"");
  EXPECT_THAT(error_with("quantization_config", {{"bits", 4}}),
              HasSubstr("quantization_config.quant_method: missing"));
  EXPECT_THAT(error_with("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor: supported: 1"));
}

// A model of 4,096 positions with a rope_theta of 500,000, updated with the fields of `rope`.
json with_rope(const json& rope) {
  json document = llama_3_2_1b();
  document.erase("rope_scaling");
  document["max_position_embeddings"] = 4096;
  document.update(rope);
  return document;
}

std::string rope_error(const json& rope) {
  return error_of([&] { parse(with_rope(rope)); });
}

const json kYarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4096}};

// A file that transformers 5 saved, with a model card's YaRN block added.
TEST(Config, RopeScalingIsUsedBesideDefaultRopeParameters) {
  const json both = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500000.0}}},
                     {"rope_scaling", kYarn}};
  const LlamaConfig config = parse(with_rope(both));
  EXPECT_EQ(config.rope_scaling, RopeScaling(YarnRopeScaling{4, 32, 1, true, 4096}));
  EXPECT_NEAR(config.rope_attention_factor, 0.1 * std::log(4) + 1, 1e-12);
  EXPECT_EQ(config.rope_theta, 500000);
}

TEST(Config, ReadsRopeThetaFromEachPlace) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    json document = with_rope({{key, {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 7.0}}}});
    document.erase("rope_theta");
    EXPECT_EQ(parse(document).rope_theta, 7);
  }
  json document = with_rope(
      {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}, {"rope_scaling", kYarn}});
  document.erase("rope_theta");
  EXPECT_EQ(parse(document).rope_theta, 7);
}

TEST(Config, RefusesRopeFieldsThatDisagree) {
  EXPECT_EQ(rope_error({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}}),
            "config: rope_parameters.rope_theta: found 10000, but rope_theta is 500000; expected one number");
  json scaling = kYarn;
  scaling["rope_theta"] = 3.0;
  EXPECT_EQ(rope_error({{"rope_scaling", scaling}}),
            "config: rope_scaling.rope_theta: found 3, but rope_theta is 500000; expected one number");
  EXPECT_EQ(
      rope_error({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}, {"rope_parameters", kYarn}}),
      "config: rope_scaling: says \"linear\", but rope_parameters says \"yarn\"; expected one way to scale");
  EXPECT_EQ(
      rope_error({{"rope_scaling", {{"rope_type", "default"}}}, {"rope_parameters", kYarn}}),
      "config: rope_scaling: says \"default\", but rope_parameters says \"yarn\"; expected one way to scale");
  scaling = kYarn;
  scaling["factor"] = 8.0;
  EXPECT_EQ(rope_error({{"rope_scaling", scaling}, {"rope_parameters", kYarn}}),
            "config: rope_scaling: says \"yarn\", but rope_parameters says \"yarn\" with other numbers; "
            "expected one way to scale");
  EXPECT_EQ(rope_error({{"rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}}}),
            "config: rope_scaling.type: found \"yarn\", but rope_type is \"linear\"; expected one type");
  EXPECT_EQ(rope_error({{"rope_scaling", kYarn}, {"original_max_position_embeddings", 2048}}),
            "config: rope_scaling.original_max_position_embeddings: found 4096, but 2048 beside it; "
            "expected one number");
  scaling = kYarn;
  scaling.update({{"mscale", 1.0}, {"mscale_all_dim", 1.0}, {"attention_factor", 1.5}});
  EXPECT_EQ(rope_error({{"rope_scaling", scaling}}),
            "config: rope_scaling.attention_factor: found 1.5, but mscale and mscale_all_dim give 1; "
            "expected one factor");
}

TEST(Config, LinearAndYarnExtendTheContext) {
  EXPECT_EQ(parse(with_rope({{"rope_scaling", kYarn}})).max_position, 4 * 4096);
  EXPECT_EQ(parse(with_rope({{"rope_scaling", kYarn}, {"max_position_embeddings", 32768}})).max_position,
            32768);
  EXPECT_EQ(parse(with_rope({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})).max_position, 8192);
}

// transformers scales "dynamic" only beyond max_position_embeddings, by a factor that depends on the text's
// length.
TEST(Config, DynamicRopeEqualsDefaultAndDoesNotExtendTheContext) {
  const json dynamic = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  const LlamaConfig config = parse(with_rope({{"rope_scaling", dynamic}}));
  EXPECT_EQ(config.rope_scaling, RopeScaling());
  EXPECT_EQ(config.max_position, 4096);
  json shorter = dynamic;
  shorter["original_max_position_embeddings"] = 2048;
  EXPECT_EQ(rope_error({{"rope_scaling", shorter}}),
            "config: rope_scaling.original_max_position_embeddings: found 2048; supported with the type "
            "\"dynamic\": max_position_embeddings 4096");
}

TEST(Config, RefusesRopeTypesAndKeysThatItWouldIgnore) {
  EXPECT_EQ(
      rope_error({{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 4.0}}}}),
      "config: rope_scaling.rope_type: found \"longrope\"; supported: \"default\", \"linear\", \"dynamic\", "
      "\"yarn\", \"llama3\"");
  EXPECT_EQ(rope_error({{"rope_parameters", {{"rope_type", "default"}, {"factor", 4.0}}}}),
            "config: rope_parameters.factor: found 4.0; RoPE of the type \"default\" does not use it");
  EXPECT_EQ(rope_error({{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}, {"attention_factor", 2.0}}}}),
            "config: rope_scaling.attention_factor: found 2.0; RoPE of the type \"linear\" does not use it");
  EXPECT_EQ(
      rope_error({{"rope_scaling", {{"mrope_section", {16, 24, 24}}}}}),
      "config: rope_scaling.mrope_section: found [16,24,24]; RoPE of the type \"default\" does not use it");
  EXPECT_EQ(
      rope_error({{"rope_parameters", {{"full_attention", kYarn}}}}),
      "config: rope_parameters.full_attention: found an object of 3 fields; RoPE of the type \"default\" "
      "does not use it");
  EXPECT_NO_THROW(parse(with_rope({{"rope_parameters", {{"rope_type", "default"}, {"factor", 1.0}}}})));
  json yarn = kYarn;
  yarn["mscale"] = 0.7;
  EXPECT_EQ(rope_error({{"rope_scaling", yarn}}),
            "config: rope_scaling.mscale: found 0.7, but no mscale_all_dim; expected both or none");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    EXPECT_THAT(rope_error({{key, {{"partial_rotary_factor", 0.5}}}}),
                HasSubstr(std::string(key) + ".partial_rotary_factor: supported: 1"));
  }
}

TEST(Config, RefusesBadRopeScaling) {
  json scaling = llama_3_2_1b()["rope_scaling"];
  scaling["low_freq_factor"] = 4.0;
  EXPECT_THAT(error_with("rope_scaling", scaling), HasSubstr("low_freq_factor: found 4, must be below"));
  scaling["low_freq_factor"] = 0;
  EXPECT_THAT(error_with("rope_scaling", scaling),
              HasSubstr("low_freq_factor: found 0, expected a number from"));
  scaling["low_freq_factor"] = 1;
  scaling["factor"] = 0.5;
  EXPECT_THAT(error_with("rope_scaling", scaling), HasSubstr("rope_scaling.factor: found 0.5"));
  scaling.erase("factor");
  EXPECT_THAT(error_with("rope_scaling", scaling), HasSubstr("rope_scaling.factor: missing"));
  EXPECT_THAT(error_with("rope_scaling", "llama3"),
              HasSubstr("rope_scaling: found \"llama3\", expected a JSON object"));
}

TEST(Config, RefusesDimensionsThatAreNotWholeTiles) {
  EXPECT_EQ(error_with("hidden_size", 2056), "config: hidden_size: found 2056, expected a multiple of 16");
  EXPECT_EQ(error_with("intermediate_size", 8193),
            "config: intermediate_size: found 8193, expected a multiple of 16");
}

TEST(Config, RefusesOtherHeadDims) {
  EXPECT_EQ(error_with("head_dim", 96), "config: head_dim: found 96; supported: 64 and 128");
}

TEST(Config, RefusesKvHeadsThatDoNotDivideTheHeads) {
  EXPECT_EQ(error_with("num_key_value_heads", 5),
            "config: num_key_value_heads: found 5, must divide num_attention_heads 32");
}

TEST(Config, RefusesEveryFieldOutsideItsLimits) {
  for (const char* field : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                            "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings"})
    for (const json& value : {json(0), json(-16), json(1LL << 40), json(std::numeric_limits<uint64_t>::max()),
                              json("16"), json(64.5), json(true), json::array({64})})
      EXPECT_THAT(error_with(field, value), HasSubstr(std::string(field) + ": found ")) << value;
  for (const char* field : {"rms_norm_eps", "rope_theta"})
    for (const json& value : {json(-1), json(1e300), json("1"), json::object()})
      EXPECT_THAT(error_with(field, value), HasSubstr(std::string(field) + ": found ")) << value;
  EXPECT_THAT(error_with("tie_word_embeddings", 1), HasSubstr("expected true or false"));
}

TEST(Config, NamesAMissingField) {
  for (const char* field :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"}) {
    json document = llama_3_2_1b();
    document.erase(field);
    EXPECT_EQ(error_of([&] { parse(document); }), "config: " + std::string(field) + ": missing");
  }
}

TEST(Config, RefusesTokenIdsOutsideTheVocabulary) {
  EXPECT_EQ(error_with("bos_token_id", 128256),
            "config: bos_token_id: found 128256, expected a token id below vocab_size 128256");
  EXPECT_THAT(error_with("eos_token_id", {1, -1}), HasSubstr("eos_token_id: found -1"));
  EXPECT_THAT(error_with("eos_token_id", "</s>"), HasSubstr("eos_token_id: found \"</s>\""));
  EXPECT_THAT(error_with("eos_token_id", json(std::vector<int>(65, 1))),
              HasSubstr("found 65 ids; limit: 64"));
}

TEST(Config, RefusesTextThatIsNotAJsonObject) {
  EXPECT_THAT(error_of([] { parse_config("[1]", "config"); }), HasSubstr("expected a JSON object"));
  EXPECT_THAT(error_of([] { parse_config("", "config"); }), HasSubstr("config: "));
  EXPECT_THAT(error_of([] { parse_config(R"({"hidden_size": 1, "hidden_size": 2})", "config"); }),
              HasSubstr("hidden_size"));
}

TEST(Config, ShowsHostileTextOnOneShortLine) {
  const std::string line = error_with("model_type", std::string(1000, '\n') + "\x1b[31m");
  EXPECT_LT(line.size(), 200);
}

TEST(LoadConfig, TakesItsNameFromTheDirectory) {
  const TempDir dir;
  dir.write("config.json", tiny_config_json(true));
  EXPECT_EQ(load_config(dir.path()).name, dir.path().filename());
  EXPECT_EQ(load_config(dir.path() / "").name, dir.path().filename());
}

TEST(LoadConfig, TokenIdsOfTheGenerationConfigReplaceOthers) {
  const TempDir dir;
  dir.write("config.json", tiny_config_json(true));
  dir.write("generation_config.json", R"({"bos_token_id": 3, "eos_token_id": [4, 5], "do_sample": true,
    "temperature": 0.6, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1,
    "transformers_version": "4.45.0"})");
  const LlamaConfig config = load_config(dir.path());
  EXPECT_EQ(config.bos_id, 3);
  EXPECT_THAT(config.eos_ids, testing::ElementsAre(4, 5));
  const GenerationDefaults recommended = {
      {"temperature", 0.6}, {"top_p", 0.9}, {"top_k", 40}, {"min_p", 0.1}, {"repetition_penalty", 1.1}};
  EXPECT_EQ(config.generation, recommended);
}

TEST(LoadConfig, WithoutAGenerationConfigNothingIsRecommended) {
  const TempDir dir;
  dir.write("config.json", tiny_config_json(true));
  const LlamaConfig config = load_config(dir.path());
  EXPECT_THAT(config.eos_ids, testing::ElementsAre(2));
  EXPECT_TRUE(config.generation.empty());
}

TEST(LoadConfig, DoSampleFalseRecommendsGreedy) {
  LlamaConfig config = tiny_config();
  apply_generation_config(R"({"do_sample": false, "temperature": 0.6})", "generation", config);
  EXPECT_EQ(config.generation.at("temperature"), 0);
}

TEST(LoadConfig, RefusesABadGenerationConfig) {
  LlamaConfig config = tiny_config();
  const auto error = [&](const char* text) {
    return error_of([&] { apply_generation_config(text, "generation", config); });
  };
  EXPECT_EQ(error(R"({"temperature": -1})"), "generation: temperature: found -1; limit: 0 to 100");
  EXPECT_EQ(error(R"({"top_p": 0})"), "generation: top_p: found 0; limit: above 0, up to 1");
  EXPECT_EQ(error(R"({"top_p": 1e-60})"), "generation: top_p: found 1e-60; limit: above 0, up to 1");
  EXPECT_EQ(error(R"({"top_k": "all"})"), "generation: top_k: found \"all\"; limit: 0 to 2147483647");
  EXPECT_EQ(error(R"({"top_k": 1.5})"), "generation: top_k: found 1.5; limit: 0 to 2147483647");
  EXPECT_EQ(error(R"({"min_p": -0.1})"), "generation: min_p: found -0.1; limit: 0 to 1");
  EXPECT_EQ(error(R"({"repetition_penalty": 11})"),
            "generation: repetition_penalty: found 11; limit: above 0, up to 10");
  EXPECT_THAT(error(R"({"eos_token_id": 24})"), HasSubstr("below vocab_size 24"));
}

TEST(LoadConfig, ADanglingGenerationConfigLinkIsAnError) {
  const TempDir dir;
  dir.write("config.json", tiny_config_json(true));
  std::filesystem::create_symlink(dir / "nowhere", dir / "generation_config.json");
  EXPECT_EQ(error_of([&] { load_config(dir.path()); }),
            (dir / "generation_config.json").string() + ": no such file");
}

TEST(LoadConfig, ReadsNaNAndInfinityWhereNothingUsesThem) {
  const auto line_with = [](const std::string& field) {
    const TempDir dir;
    std::string text = tiny_config_json(true);
    dir.write("config.json", text.insert(text.find('{') + 1, field + ","));
    const std::string line = error_of([&] { load_config(dir.path()); });
    return line.substr(line.find("config.json"));
  };
  const TempDir dir;
  std::string text = tiny_config_json(true);
  dir.write("config.json",
            text.insert(text.find('{') + 1, "\"initializer_range\": NaN, \"loss\": [-Infinity],"));
  EXPECT_NO_THROW(load_config(dir.path()));
  EXPECT_EQ(line_with("\"logits_scaling\": NaN"), "config.json: logits_scaling: found NaN; supported: 1");
  EXPECT_EQ(line_with("\"clip_qkv\": Infinity"),
            "config.json: clip_qkv: found Infinity; supported: models without it");
  EXPECT_EQ(line_with("\"sliding_window\": Infinity"),
            "config.json: sliding_window: found Infinity; supported: attention to all positions");
  EXPECT_EQ(line_with("\"partial_rotary_factor\": -Infinity"),
            "config.json: partial_rotary_factor: found -Infinity, expected a number from 0 to 1");
}

TEST(LoadConfig, NamesAMissingFile) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { load_config(dir.path()); }), HasSubstr((dir / "config.json").string()));
}

TEST(LoadConfig, RefusesAnOversizedFileBeforeReadingIt) {
  const TempDir dir;
  dir.write("config.json", "{");
  std::filesystem::resize_file(dir / "config.json", uintmax_t{1} << 40);
  EXPECT_THAT(error_of([&] { load_config(dir.path()); }), HasSubstr("limit: 1048576"));
}

}  // namespace
}  // namespace serval
