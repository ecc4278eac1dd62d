// A checkpoint's weights on the GPU: independent of the file's type, and equal to the host's.
#include <cmath>

#include "gtest/gtest.h"

#include "engine/backend/device_backend.h"
#include "engine/backend/host_backend.h"
#include "engine/torch/teacher_forcing.h"
#include "models/checkpoint/weights.h"
#include "tests/checkpoint/test_files.h"

namespace serval {
namespace {

constexpr uint32_t kContext = 64;

std::vector<int32_t> tokens() {
  std::vector<int32_t> out;
  for (int32_t t = 0; t < 24; ++t) out.push_back(7 * t % 24);
  return out;
}

std::vector<float> device_logits(const TempDir& dir, bool tied, const LoadProgress& progress = {}) {
  BackendOptions options;
  options.limits.context = kContext;
  const auto weights = open_checkpoint_weights(dir.path(), tiny_config(tied));
  return teacher_force(*make_device_backend(tiny_config(tied), *weights, options, progress), tokens());
}

std::vector<float> host_logits(const TempDir& dir, bool tied) {
  BackendOptions options;
  options.limits.context = kContext;
  options.threads = 2;
  const auto weights =
      std::make_shared<const ModelWeights>(ModelWeights::load(dir.path(), tiny_config(tied)));
  return teacher_force(*make_host_backend(tiny_config(tied), weights, options), tokens());
}

TEST(WeightUpload, EveryTypeComesToTheSameValues) {
  for (const bool tied : {true, false}) {
    std::vector<std::vector<float>> logits;
    for (const char* dtype : {"BF16", "F16", "F32"}) {
      const TempDir dir;
      dir.write("model.safetensors", safetensors_file(tiny_tensors(dtype, tied)));
      logits.push_back(device_logits(dir, tied));
      if (logits.size() > 1) continue;
      const std::vector<float> host = host_logits(dir, tied);
      ASSERT_EQ(logits[0].size(), host.size());
      for (size_t i = 0; i < host.size(); ++i)
        ASSERT_NEAR(logits[0][i], host[i], 0.02 * std::fmax(1, std::abs(host[i]))) << i;
    }
    EXPECT_EQ(logits[1], logits[0]);
    EXPECT_EQ(logits[2], logits[0]);
  }
}

TEST(WeightUpload, ReportsProgressUpToTheLastByte) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file(tiny_tensors("BF16")));
  int64_t last = -1;
  device_logits(dir, true, [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, tiny_config().weight_bytes());
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, tiny_config().weight_bytes());
}

TEST(WeightUpload, WhatProgressThrowsEndsIt) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_file(tiny_tensors("BF16")));
  EXPECT_THROW(device_logits(dir, true, [](int64_t, int64_t) { throw std::runtime_error("enough"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace serval
