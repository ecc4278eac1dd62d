#include "tests/oracle/oracle_support.h"

#include <fstream>
#include <random>

#include "engine/backend/host_backend.h"
#include "engine/torch/teacher_forcing.h"
#include "tests/llama/configs.h"

namespace serval::testing {
namespace {

GoldenModel golden_model(const nlohmann::json& entry) {
  GoldenModel model;
  model.name = entry["name"];
  model.config = parse_config(entry["config"].dump(), model.name);
  model.weights =
      std::make_shared<const ModelWeights>(ModelWeights::random(model.config, entry["seed"].get<uint64_t>()));
  model.tokens = entry["tokens"].get<std::vector<int32_t>>();
  model.columns = entry["columns"].get<std::vector<size_t>>();
  model.logits = entry["logits"].get<std::vector<std::vector<float>>>();
  model.bf16_mean_relative_error = entry["bf16_mean_relative_error"];
  return model;
}

}  // namespace

std::unique_ptr<Backend> host_backend(const GoldenModel& model, uint32_t context, uint32_t max_sequences) {
  return host_backend(model, {.context = context, .sequences = max_sequences});
}

std::unique_ptr<Backend> host_backend(const GoldenModel& model, const ProgramLimits& limits) {
  BackendOptions options;
  options.limits = limits;
  options.threads = 1;
  return make_host_backend(model.config, model.weights, options);
}

nlohmann::json read_goldens(const std::string& file, const std::string& key) {
  std::ifstream in(std::string(SERVAL_TEST_DATA) + "/" + file);
  return nlohmann::json::parse(in).at(key);
}

std::vector<GoldenModel> golden_models() {
  std::vector<GoldenModel> models;
  for (const nlohmann::json& entry : read_goldens("oracle/goldens.json", "cases")) {
    models.push_back(golden_model(entry));
  }
  return models;
}

std::vector<int32_t> random_text(const LlamaConfig& config, size_t count) {
  std::mt19937 random(1);  // the standard defines its numbers
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(config.vocab_size));
  return tokens;
}

std::vector<float> reference_logits(const GoldenModel& model, std::span<const int32_t> tokens,
                                    OracleDtype dtype) {
  Oracle oracle(
      model.config, model.weights,
      {.dtype = dtype, .device = OracleDevice::kCpu, .cache_cells = static_cast<int64_t>(tokens.size())});
  return teacher_force(oracle, tokens, static_cast<size_t>(model.config.vocab_size));
}

}  // namespace serval::testing
