// Loading libserval_torch.so, and its C interface.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"

#include "engine/torch/oracle.h"
#include "tests/oracle/oracle_support.h"
#include "vm/base/error.h"

namespace serval::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Points SERVAL_TORCH_PLUGIN at a file while it lives.
class PluginVariable {
 public:
  explicit PluginVariable(const std::string& file) {
    if (const char* before = std::getenv(kTorchPluginVariable)) before_ = before;
    setenv(kTorchPluginVariable, file.c_str(), 1);
  }
  ~PluginVariable() {
    if (before_.empty()) {
      unsetenv(kTorchPluginVariable);
    } else {
      setenv(kTorchPluginVariable, before_.c_str(), 1);
    }
  }
  PluginVariable(const PluginVariable&) = delete;
  PluginVariable& operator=(const PluginVariable&) = delete;

 private:
  std::string before_;
};

std::string refusal() {
  try {
    load_torch_plugin();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "loaded";
}

TEST(TorchPlugin, SaysHowToGetItWhereItIsMissing) {
  const PluginVariable variable("/nowhere/libserval_torch.so");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("/nowhere/libserval_torch.so"),
                               HasSubstr("apt install libtorch-dev"), HasSubstr("SERVAL_TORCH_PLUGIN")));
}

TEST(TorchPlugin, RefusesAFileThatIsNoPlugin) {
  const std::string path = ::testing::TempDir() + "serval_no_plugin.so";
  std::ofstream(path) << "text";
  const PluginVariable variable(path);
  EXPECT_THAT(refusal(), HasSubstr(path));
  std::filesystem::remove(path);
}

using TorchPluginTest = WithTorch;

TEST_F(TorchPluginTest, LoadsAndNamesItsLibrary) {
  EXPECT_THAT(load_torch_plugin().library(), HasSubstr("LibTorch "));
  EXPECT_EQ(&load_torch_plugin(), &load_torch_plugin());
}

ServalOracleConfig small_config() {
  ServalOracleConfig config = {};
  config.hidden_size = config.intermediate_size = config.head_dim = 64;
  config.num_layers = config.num_heads = config.num_kv_heads = 1;
  config.vocab_size = 16;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 10000;
  config.rope_attention_factor = 1;
  config.cache_cells = 4;
  return config;
}

TEST_F(TorchPluginTest, NamesTheWeightThatIsMissingOrMisshapen) {
  const ServalOracleApi& api = load_torch_plugin();
  const ServalOracleConfig config = small_config();
  ServalOracle* oracle = nullptr;
  EXPECT_EQ(api.create(&config, nullptr, 0, &oracle), SERVAL_ORACLE_FAILED);
  EXPECT_STREQ(api.last_error(), "weight model.embed_tokens.weight: missing");
  const std::vector<uint16_t> values(16 * 32);
  const ServalOracleWeight embedding = {"model.embed_tokens.weight", values.data(), 16, 32, nullptr, 0};
  EXPECT_EQ(api.create(&config, &embedding, 1, &oracle), SERVAL_ORACLE_FAILED);
  EXPECT_STREQ(api.last_error(), "weight model.embed_tokens.weight: [16, 32]; needed: [16, 64]");
  EXPECT_EQ(oracle, nullptr);
  api.destroy(oracle);
}

TEST_F(TorchPluginTest, ReportsAMissingGpu) {
  const ServalOracleApi& api = load_torch_plugin();
  if (api.cuda_available() != 0) GTEST_SKIP() << "LibTorch finds a GPU here";
  ServalOracleConfig config = small_config();
  config.device = SERVAL_ORACLE_CUDA;
  ServalOracle* oracle = nullptr;
  EXPECT_EQ(api.create(&config, nullptr, 0, &oracle), SERVAL_ORACLE_FAILED);
  EXPECT_THAT(api.last_error(), HasSubstr("finds no GPU"));
}

}  // namespace
}  // namespace serval::testing
