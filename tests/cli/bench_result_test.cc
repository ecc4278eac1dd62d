// Records of serval bench for GPUs, without a GPU.
#include "engine/cli/measure/bench_result.h"

#include <vector>

#include "gtest/gtest.h"

#include "tests/llama/tiny_model.h"

namespace serval::cli {
namespace {

constexpr double kLimit = 4000;  // 1e9 bytes a second

// A backend with a program that is never run.
class NoRun final : public Backend {
 public:
  explicit NoRun(uint32_t ranks) : state_(program_.limits) { program_.num_devices = ranks; }
  std::string name() const override { return "device"; }
  const Program& program() const override { return program_; }
  StateBlock& state() override { return state_; }
  void run(const Launch&, const std::function<void(uint32_t)>&, const std::function<void()>&) override {}
  void request_stop() noexcept override {}
  std::span<const float> logits(int) override { return {}; }

 private:
  Program program_;
  StateBlock state_;
};

nlohmann::ordered_json record_of(uint32_t ranks, const std::vector<int>& gpus,
                                 const WeightFormats& formats = {}) {
  LlamaConfig model = testing::tiny_config();
  model.formats = formats;
  const NoRun backend(ranks);
  constexpr uint32_t kPasses = 4;
  return bench_result({model, backend, kLimit, gpus, 1},
                      {.prompt = false, .tokens = 4, .batch = 1, .depth = 0},
                      {.samples = {{.passes = kPasses, .total_us = 50, .kernel_us = 40}}, .torch_us = {}});
}

double share(const nlohmann::ordered_json& record) {
  return record.at("share_of_limit").get<double>() * kLimit / record.at("gb_per_s").get<double>();
}

TEST(BenchResult, SaysHowManyGpusShareTheModel) {
  EXPECT_EQ(record_of(1, {}).at("gpus"), 1);
  EXPECT_EQ(record_of(4, {0, 1, 2, 3}).at("gpus"), 4);
}

TEST(BenchResult, NamesTheTypesOfTheWeights) {
  const auto dtype = [](const WeightFormats& formats) { return record_of(1, {}, formats).at("dtype"); };
  EXPECT_EQ(dtype({}), "bf16");
  EXPECT_EQ(dtype({.layers = DType::kE4M3, .lm_head = DType::kE4M3}), "e4m3");
  EXPECT_EQ(dtype({.layers = DType::kE4M3}), "e4m3, lm_head bf16");
}

TEST(BenchResult, HasTheShareOfTheLimitOfAllGpus) {
  EXPECT_DOUBLE_EQ(share(record_of(1, {})), 1);
  EXPECT_DOUBLE_EQ(share(record_of(1, {3})), 1);
  EXPECT_DOUBLE_EQ(share(record_of(4, {0, 1, 2, 3})), 1.0 / 4);
  EXPECT_DOUBLE_EQ(share(record_of(4, {})), 1.0 / 4) << "a program file's, on the first GPUs";
}

TEST(BenchResult, CountsAGpuThatTwoRanksShareOnce) {
  EXPECT_DOUBLE_EQ(share(record_of(2, {0, 0})), 1);
  EXPECT_DOUBLE_EQ(share(record_of(4, {0, 0, 1, 1})), 1.0 / 2);
}

}  // namespace
}  // namespace serval::cli
