// Engine::load: what it finds, and its errors.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/runtime/model_source.h"
#include "engine/runtime/options.h"
#include "serval/engine.h"
#include "tests/tokenizer/tiny_tokenizer.h"

namespace serval {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTinyConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
  "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 320, "max_position_embeddings": 128,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2
})";

// A model directory with only a configuration, removed when the test ends.
class ModelDirectory {
 public:
  ModelDirectory() {
    std::string name = (fs::temp_directory_path() / "serval-load-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
    write("config.json", kTinyConfig);
  }
  ~ModelDirectory() { fs::remove_all(path_); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(path_ / file) << text; }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

EngineOptions tiny_options(const ModelDirectory& directory) {
  EngineOptions options;
  options.model = directory.path();
  options.random_weights = 1;
  options.backend = "host";
  return options;
}

Error refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error;
  }
  ADD_FAILURE() << "accepted";
  return Error(ErrorKind::kRuntime, "accepted");
}

void expect_usage_error(const std::function<void(EngineOptions&)>& change, const std::string& line) {
  EngineOptions options;
  change(options);
  const Error error = refusal([&] { Engine::load(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_EQ(error.what(), line);
}

TEST(Options, NameTheFieldThatIsOutOfRange) {
  expect_usage_error([](EngineOptions& o) { o.context = -1; }, "context: -1; limit: 0 to 16777216");
  expect_usage_error([](EngineOptions& o) { o.max_sequences = 1025; },
                     "max_sequences: 1025; limit: 1 to 1024");
  expect_usage_error([](EngineOptions& o) { o.max_batch_tokens = 8193; },
                     "max_batch_tokens: 8193; limit: 0 to 8192");
  expect_usage_error([](EngineOptions& o) { o.threads = 2000; }, "threads: 2000; limit: 0 to 1024");
  expect_usage_error([](EngineOptions& o) { o.sms = -3; }, "sms: -3; limit: 0 to 1024");
  expect_usage_error([](EngineOptions& o) { o.stall_timeout_s = NAN; },
                     "stall_timeout_s: nan; limit: more than 0, up to 86400");
  expect_usage_error([](EngineOptions& o) { o.backend = "gpu"; },
                     "backend: 'gpu'; expected one of auto, device, host, torch");
  expect_usage_error([](EngineOptions& o) { o.policy = "worst"; },
                     "policy: 'worst'; expected one of round-robin, zig-zag, wave, list, best");
  expect_usage_error([](EngineOptions& o) { o.chat_template = "alpaca"; },
                     "chat_template: 'alpaca'; expected one of llama3, chatml, or a file");
}

TEST(Options, GiveEachSequenceARowOfThePass) {
  const auto limits = [](const EngineOptions& options) { return backend_options(options, 100).limits; };
  EXPECT_EQ(limits({}).pass_rows(), 16U);
  EXPECT_EQ(limits({}).slots(), 16U);
  EXPECT_EQ(limits({.max_sequences = 3}).slots(), 16U) << "shorter ones may be more";
  EXPECT_EQ(limits({.max_sequences = 3}).kv_blocks(), 3U * 2U);
  EXPECT_EQ(limits({.max_sequences = 40}).slots(), 40U);
  EXPECT_EQ(limits({.max_sequences = 40}).pass_rows(), 40U);
  EXPECT_EQ(limits({.max_sequences = 40, .max_batch_tokens = 256}).pass_rows(), 256U);
  EXPECT_EQ(limits({.max_batch_tokens = 1}).pass_rows(), 1U);
}

TEST(Options, LimitTheContextToWhatTheModelWasMadeFor) {
  EXPECT_EQ(context_of({}, 131072), 4096);
  EXPECT_EQ(context_of({}, 2048), 2048);
  EXPECT_EQ(context_of({.context = 131072}, 131072), 131072);
  EXPECT_STREQ(refusal([] { context_of({.context = 4096}, 2048); }).what(),
               "context: 4096; limit: 2 to 2048 (the model's maximum)");
  EXPECT_THROW(context_of({.context = 1}, 2048), Error);
}

bool has_gpu() {
  try {
    check_device();
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(Load, TakesTheHostWhereThereIsNoGpu) {
  if (has_gpu()) GTEST_SKIP() << "there is a GPU";
  const ModelInfo info = Engine::load({}).info();
  EXPECT_EQ(info.backend, "host");
  if (device_is_built()) {
    EXPECT_THAT(info.backend_notice, testing::StartsWith("running on the CPU: "));
  }
  EXPECT_EQ(Engine::load({.backend = "host"}).info().backend_notice, "");
}

TEST(Load, ReportsAMissingBackend) {
  setenv("SERVAL_TORCH_PLUGIN", "/nowhere/libserval_torch.so", 1);
  std::vector<std::string> absent = {"torch"};
  if (!has_gpu()) absent.emplace_back("device");
  for (const std::string& backend : absent) {
    const Error error = refusal([&] { Engine::load({.backend = backend}); });
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), HasSubstr("backend " + backend));
  }
  unsetenv("SERVAL_TORCH_PLUGIN");
}

TEST(Load, NamesThePresetsWhereThereIsNoSuchModel) {
  const Error error = refusal([] { Engine::load({.model = "/nowhere/at-all"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("/nowhere/at-all"), HasSubstr("llama-3.2-1b")));
}

TEST(Load, RefusesGpusThatCannotShareAModel) {
  const auto refused = [](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options;
    options.gpus = {0, 1};
    change(options);
    const Error error = refusal([&] { Engine::load(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return std::string(error.what());
  };
  EXPECT_EQ(refused([](EngineOptions& o) { o.gpus = {0, 1, 2}; }), "gpus: 3; expected 1, 2, 4 or 8");
  EXPECT_EQ(refused([](EngineOptions& o) { o.gpus.resize(16); }), "gpus: 16; expected 1, 2, 4 or 8");
  EXPECT_THAT(refused([](EngineOptions& o) { o.global_queue = true; }), HasSubstr("a queue for each SM"));
  EXPECT_THAT(refused([](EngineOptions& o) { o.backend = "torch"; }), HasSubstr("backend torch takes 1"));
  EXPECT_THAT(refused([](EngineOptions& o) { o.gpus.resize(8); }),
              HasSubstr("num_attention_heads: 4; expected a multiple of 8"));
  EXPECT_THAT(refused([](EngineOptions& o) {
                o.model = "smollm2-135m";
                o.random_weights = 1;
              }),
              HasSubstr("num_attention_heads: 9"));
}

TEST(Load, RefusesAFileInPlaceOfADirectory) {
  const ModelDirectory directory;
  const std::string file = directory.path() + "/config.json";
  EXPECT_EQ(refusal([&] { Engine::load({.model = file}); }).what(),
            file + ": neither a directory nor a GGUF file");
}

TEST(Load, RequiresASeedForAPresetWithoutWeights) {
  const Error error = refusal([] { Engine::load({.model = "llama-3.1-70b"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("--random-weights SEED"));
}

TEST(Load, LooksForTheBundledModelWhereTheVariablePoints) {
  const char* before = std::getenv("SERVAL_ASSETS");
  const std::string saved = before == nullptr ? "" : before;
  setenv("SERVAL_ASSETS", "/nowhere", 1);
  const Error error = refusal([] { bundled_model_directory(); });
  if (before == nullptr) {
    unsetenv("SERVAL_ASSETS");
  } else {
    setenv("SERVAL_ASSETS", saved.c_str(), 1);
  }
  EXPECT_THAT(error.what(), HasSubstr("/nowhere/serval-stories"));
  EXPECT_TRUE(fs::exists(bundled_model_directory() / "config.json"));
}

TEST(Load, MakesRandomWeightsForADirectoryThatHasNone) {
  const ModelDirectory directory;
  uint64_t last_done = 0;
  uint64_t last_total = 1;
  EngineOptions options = tiny_options(directory);
  options.progress = [&](const char* stage, uint64_t done, uint64_t total) {
    EXPECT_STREQ(stage, "weights");
    last_done = done;
    last_total = total;
  };
  Engine engine = Engine::load(options);
  EXPECT_EQ(last_done, last_total);
  EXPECT_EQ(engine.info().context, 128);
  const Response response = engine.generate({.prompt = "abc", .max_tokens = 5, .ignore_eos = true});
  EXPECT_EQ(response.prompt_tokens, 3);
  EXPECT_EQ(response.tokens.size(), 5u);
  EXPECT_EQ(engine.generate({.prompt_ids = {'a', 'b', 'c'}, .max_tokens = 5, .ignore_eos = true}).tokens,
            response.tokens);
}

TEST(Load, NeedsATokenizerWhereWeightsAreReal) {
  const ModelDirectory directory;
  const Error error = refusal([&] { Engine::load({.model = directory.path()}); });
  EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  EXPECT_THAT(error.what(), HasSubstr("tokenizer.json"));
}

TEST(Load, NamesTheTokenizerWhereItsTokensAreNotTheModels) {
  const ModelDirectory directory;
  nlohmann::json tokenizer = tiny::tokenizer_json();
  tokenizer["added_tokens"][0]["id"] = 320;  // kTinyConfig has 0 to 319
  directory.write("tokenizer.json", tokenizer.dump());
  Engine engine = Engine::load(tiny_options(directory));
  EXPECT_EQ(engine.generate({.prompt = "abc", .max_tokens = 1}).prompt_tokens, 1);
  const Error error = refusal([&] { engine.generate({.prompt = "abc<end>", .special = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
  EXPECT_EQ(error.what(), directory.path() +
                              "/tokenizer.json: token \"<end>\" of the text is 320; limit: 0 to 319"
                              " (vocab_size in config.json)");
}

TEST(Load, RefusesConversationsWithoutATokenizer) {
  const ModelDirectory directory;
  Engine engine = Engine::load(tiny_options(directory));
  EXPECT_THAT(refusal([&] {
                engine.generate({.messages = {{"user", "hi"}}});
              }).what(),
              HasSubstr("no chat template"));
  EngineOptions options = tiny_options(directory);
  options.chat_template = "chatml";
  EXPECT_EQ(refusal([&] { Engine::load(options); }).kind(), ErrorKind::kUsage);
}

TEST(Load, OverlaysTheDefaultsWithTheModelsOwn) {
  const ModelDirectory directory;
  directory.write("generation_config.json",
                  R"({"temperature": 0.6, "top_k": 7, "repetition_penalty": 1.25})");
  const Engine engine = Engine::load(tiny_options(directory));
  const SamplingParams& sampling = engine.info().default_sampling;
  EXPECT_FLOAT_EQ(sampling.temperature, 0.6f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty, 1.25f);
  EXPECT_FLOAT_EQ(sampling.top_p, SamplingParams{}.top_p);
}

// The server's default sampling: cuts off tokens only if the checkpoint's own settings do.
TEST(Load, TheModelsOwnSamplingIsNeutralButForItsFile) {
  const ModelDirectory directory;
  const auto sampling = [&] { return Engine::load(tiny_options(directory)).info().model_sampling; };
  const SamplingParams neutral = sampling();
  EXPECT_EQ(neutral.temperature, 1);
  EXPECT_EQ(neutral.top_k, 0);
  EXPECT_EQ(neutral.top_p, 1);
  EXPECT_EQ(neutral.min_p, 0);
  EXPECT_EQ(neutral.repetition_penalty, 1);
  EXPECT_EQ(neutral.repeat_last_n, -1);
  directory.write("generation_config.json", R"({"temperature": 0.6, "top_k": 7})");
  const SamplingParams own = sampling();
  EXPECT_FLOAT_EQ(own.temperature, 0.6f);
  EXPECT_EQ(own.top_k, 7);
  EXPECT_EQ(own.top_p, 1);
  EXPECT_EQ(own.min_p, 0);
}

TEST(Load, LimitsHowManyTokensMayEndAnAnswer) {
  const ModelDirectory directory;
  directory.write("generation_config.json",
                  R"({"eos_token_id": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]})");
  EXPECT_THAT(refusal([&] { Engine::load(tiny_options(directory)); }).what(),
              HasSubstr("eos_token_id: 17 tokens end an answer; limit: 16"));
}

}  // namespace
}  // namespace serval
