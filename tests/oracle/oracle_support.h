// Helpers of the oracle's tests.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/backend.h"
#include "engine/compile/compile_model.h"
#include "engine/torch/oracle.h"
#include "models/checkpoint/weights.h"
#include "models/llama/config.h"

namespace serval::testing {

// Base class of tests that need the plugin. Skips them if the build has no plugin; fails if a built plugin
// cannot be loaded.
class WithTorch : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef SERVAL_HAS_TORCH
    GTEST_SKIP() << "built without LibTorch (Debian: apt install libtorch-dev)";
#endif
  }
};

// One case of tests/data/oracle/goldens.json: a small model of random weights, and transformers' results for
// it.
struct GoldenModel {
  std::string name;
  LlamaConfig config;
  std::shared_ptr<const ModelWeights> weights;
  std::vector<int32_t> tokens;
  std::vector<size_t> columns;
  std::vector<std::vector<float>> logits;  // [tokens][columns], fp32
  double bf16_mean_relative_error = 0;     // error of transformers' bf16 pass against its fp32 pass
};

// A backend of the host interpreter with one thread.
std::unique_ptr<Backend> host_backend(const GoldenModel& model, uint32_t context, uint32_t max_sequences);
std::unique_ptr<Backend> host_backend(const GoldenModel& model, const ProgramLimits& limits);

// The array under `key` of a file in tests/data. Throws if there is none.
nlohmann::json read_goldens(const std::string& file, const std::string& key);
std::vector<GoldenModel> golden_models();

// Random tokens, the same in each run.
std::vector<int32_t> random_text(const LlamaConfig& config, size_t count);

// Logits [tokens, vocab] of the reference on the CPU. Needs the plugin.
std::vector<float> reference_logits(const GoldenModel& model, std::span<const int32_t> tokens,
                                    OracleDtype dtype);

}  // namespace serval::testing
