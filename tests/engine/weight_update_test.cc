// Engine::update_weights on the host interpreter: the same bits as an engine that loads these weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "engine/runtime/model_source.h"
#include "models/checkpoint/weights.h"
#include "serval/engine.h"
#include "tests/checkpoint/test_files.h"
#include "vm/base/bf16.h"
#include "vm/base/e4m3.h"

namespace serval {
namespace {

using ::testing::HasSubstr;

EngineOptions host_options() {
  EngineOptions options;
  options.backend = "host";
  options.context = 256;
  return options;
}

// The bundled model's tensors, each element changed a little, in bf16 or fp32.
std::vector<TestTensor> changed_tensors(const std::string& type) {
  const ModelSource source = find_model("");
  const ModelWeights weights = ModelWeights::load(source.files->path(), *source.model);
  std::vector<TestTensor> tensors;
  for (const WeightSpec& spec : source.model->weights()) {
    const uint16_t* from = weights.matrix(spec.name).bf16;
    std::vector<float> values(static_cast<size_t>(spec.elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = bf16_to_float(from[i]) * (1 + 0.2F * std::sin(static_cast<float>(i)));
    TestTensor tensor{spec.name, type, {spec.rows, spec.cols}, bytes_of(values)};
    if (spec.kind != WeightKind::kMatrix) tensor.shape = {spec.cols};
    if (type == "BF16") {
      std::vector<uint16_t> bf16(values.size());
      std::ranges::transform(values, bf16.begin(), float_to_bf16);
      tensor.data = bytes_of(bf16);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The bundled model's directory with other weights.
void write_model(const TempDir& directory, const std::vector<TestTensor>& tensors) {
  for (const auto& file : std::filesystem::directory_iterator(bundled_model_directory()))
    std::filesystem::copy(file, directory.path());
  directory.write("model.safetensors", safetensors_file(tensors));
}

WeightTensor tensor_of(const TestTensor& tensor) {
  return {.name = tensor.name,
          .type = tensor.dtype == "BF16" ? WeightType::kBF16 : WeightType::kF32,
          .shape = tensor.shape,
          .data = tensor.data.data()};
}

std::vector<WeightTensor> tensors_of(const std::vector<TestTensor>& tensors) {
  std::vector<WeightTensor> out;
  for (const TestTensor& tensor : tensors) out.push_back(tensor_of(tensor));
  return out;
}

std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (const char* prompt :
       {"Once upon a time there was a little fox who lived by the river and loved berries, "
        "and every morning she went out to find some for her old mother and her brothers",
        "The dog", "A"}) {
    requests.push_back({.prompt = prompt, .max_tokens = 16, .ignore_eos = true});
    requests.back().sampling.seed = requests.size();
  }
  return requests;
}

std::vector<Response> answers_of(Engine& engine) {
  return engine.decode_batch(some_requests());
}

void expect_same_bits(const std::vector<Response>& found, const std::vector<Response>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, expected[i].tokens);
    EXPECT_EQ(found[i].log_probabilities, expected[i].log_probabilities);  // bit for bit
  }
}

// An engine that has answered with the model's own weights and then gets others; it needs nothing of their
// memory afterwards.
void expect_update_equals_load(const EngineOptions& options, const std::string& type) {
  SCOPED_TRACE(type + " " + options.weights + " " + std::to_string(options.gpus.size()) + " ranks");
  std::vector<TestTensor> tensors = changed_tensors(type);
  const TempDir directory;
  write_model(directory, tensors);
  EngineOptions changed = options;
  changed.model = directory.path();
  Engine loaded = Engine::load(changed);
  const std::vector<Response> expected = answers_of(loaded);

  Engine updated = Engine::load(options);
  const std::vector<Response> before = answers_of(updated);
  EXPECT_NE(before[0].log_probabilities, expected[0].log_probabilities);
  for (int round = 0; round < 2; ++round) {  // the second time nothing moves
    updated.update_weights(tensors_of(tensors));
    expect_same_bits(answers_of(updated), expected);
  }
  for (TestTensor& tensor : tensors) std::ranges::fill(tensor.data, '\0');
  expect_same_bits(answers_of(updated), expected);
}

TEST(WeightUpdate, GivesTheBitsOfACheckpointWithTheseWeights) {
  expect_update_equals_load(host_options(), "BF16");
  expect_update_equals_load(host_options(), "F32");
}

TEST(WeightUpdate, QuantisesAsLoadingDoes) {
  EngineOptions options = host_options();
  options.weights = options.lm_head = "fp8";
  expect_update_equals_load(options, "BF16");
  expect_update_equals_load(options, "F32");
}

// The bundled model's directory with the layers' matrices in e4m3, each with one scale.
void write_fp8_model(const TempDir& directory) {
  constexpr float kScale = 1.0F / 512;
  std::vector<TestTensor> stored;
  for (const TestTensor& tensor : changed_tensors("F32")) {
    stored.push_back(tensor);
    if (tensor.shape.size() != 2 || !tensor.name.starts_with("model.layers.")) continue;
    std::string codes;
    for (size_t i = 0; i < tensor.data.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, tensor.data.data() + i, sizeof value);
      codes += static_cast<char>(float_to_e4m3(value / kScale));
    }
    stored.back() = {tensor.name, "F8_E4M3", tensor.shape, codes};
    stored.push_back({tensor.name + "_scale", "F32", {1}, bytes_of<float>({kScale})});
  }
  write_model(directory, stored);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(directory.path() / "config.json"));
  config["quantization_config"] = {{"quant_method", "fp8"}};
  directory.write("config.json", config.dump());
}

TEST(WeightUpdate, ReplacesTheCodesOfACheckpoint) {
  const std::vector<TestTensor> tensors = changed_tensors("BF16");
  const TempDir of_codes, of_bf16;
  write_fp8_model(of_codes);
  write_model(of_bf16, tensors);
  EngineOptions options = host_options();
  options.model = of_codes.path();
  Engine updated = Engine::load(options);
  options.model = of_bf16.path();
  options.weights = "fp8";
  Engine loaded = Engine::load(options);
  const std::vector<Response> expected = answers_of(loaded);
  EXPECT_NE(answers_of(updated)[0].log_probabilities, expected[0].log_probabilities);
  for (int round = 0; round < 2; ++round) {
    updated.update_weights(tensors_of(tensors));
    expect_same_bits(answers_of(updated), expected);
  }
}

TEST(WeightUpdate, GivesEachRankItsPart) {
  EngineOptions options = host_options();
  options.gpus = {0, 1};
  expect_update_equals_load(options, "BF16");
}

TEST(WeightUpdate, WorksOneInstructionAtATimeToo) {
  EngineOptions options = host_options();
  options.context = 128;
  options.interleaving = 1;
  options.threads = 2;
  const std::vector<TestTensor> tensors = changed_tensors("BF16");
  Engine interleaved = Engine::load(options), other = Engine::load(host_options());
  const Request request{.prompt = "The dog", .max_tokens = 2};
  for (Engine* engine : {&interleaved, &other}) {
    engine->generate(request);
    engine->update_weights(tensors_of(tensors));
  }
  EXPECT_EQ(interleaved.generate(request).log_probabilities, other.generate(request).log_probabilities);
}

TEST(WeightUpdate, OfOneTensorAfterAnotherEqualsThatOfAllTogether) {
  const std::vector<TestTensor> tensors = changed_tensors("F32");
  Engine one = Engine::load(host_options()), all = Engine::load(host_options());
  for (const TestTensor& tensor : tensors) one.update_weights(std::vector{tensor_of(tensor)});
  all.update_weights(tensors_of(tensors));
  expect_same_bits(answers_of(one), answers_of(all));
}

// The LM head of the bundled model is its embedding.
TEST(WeightUpdate, ChangesATiedHeadWithTheEmbedding) {
  for (const char* head_type : {"", "fp8"}) {
    EngineOptions options = host_options();
    options.lm_head = head_type;
    const std::vector<TestTensor> tensors = changed_tensors("BF16");
    TestTensor head = tensors[0];
    ASSERT_EQ(head.name, "model.embed_tokens.weight");
    head.name = "lm_head.weight";
    Engine by_embedding = Engine::load(options), by_head = Engine::load(options),
           by_both = Engine::load(options);
    const std::vector<Response> before = answers_of(by_head);
    by_embedding.update_weights(std::vector{tensor_of(tensors[0])});
    by_head.update_weights(std::vector{tensor_of(head)});
    by_both.update_weights(std::vector{tensor_of(tensors[0]), tensor_of(head)});
    const std::vector<Response> expected = answers_of(by_embedding);
    EXPECT_NE(expected[0].log_probabilities, before[0].log_probabilities);
    expect_same_bits(answers_of(by_head), expected);
    expect_same_bits(answers_of(by_both), expected);
  }
}

TEST(WeightUpdate, OfNothingChangesNothing) {
  Engine engine = Engine::load(host_options());
  const std::vector<Response> before = answers_of(engine);
  engine.update_weights({});
  expect_same_bits(answers_of(engine), before);
}

TEST(WeightUpdate, ThatIsRefusedChangesNothing) {
  Engine engine = Engine::load(host_options());
  const std::vector<Response> before = answers_of(engine);
  std::vector<TestTensor> tensors = changed_tensors("F32");
  std::vector<WeightTensor> update = tensors_of(tensors);
  update.back().shape = {255};
  EXPECT_EQ(error_of([&] { engine.update_weights(update); }, ErrorKind::kUsage),
            "weights: tensor \"model.norm.weight\": shape [255]; expected [256]");
  update.back().shape = {256};
  update.back().data = nullptr;
  EXPECT_EQ(error_of([&] { engine.update_weights(update); }, ErrorKind::kUsage),
            "weights: tensor \"model.norm.weight\": no data");
  const std::string nan = bytes_of<float>({std::nanf("")});
  tensors.back().data.replace(0, nan.size(), nan);
  EXPECT_THAT(error_of([&] { engine.update_weights(tensors_of(tensors)); }), HasSubstr("element [0] is nan"));
  expect_same_bits(answers_of(engine), before);
  engine.shutdown();
  EXPECT_THAT(error_of([&] { engine.update_weights({}); }, ErrorKind::kUsage), HasSubstr("shut down"));
}

TEST(WeightUpdate, LetsRunningRequestsFinishWithTheOldWeightsOrCancelsThem) {
  const std::vector<TestTensor> tensors = changed_tensors("BF16");
  Engine engine = Engine::load(host_options());
  const std::vector<Request> requests = some_requests();
  const std::vector<Response> before = answers_of(engine);
  std::vector<RequestHandle> handles = engine.submit(std::span(requests));
  engine.update_weights(tensors_of(tensors));
  std::vector<Response> finished;
  for (RequestHandle& handle : handles) finished.push_back(handle.wait().at(0));
  expect_same_bits(finished, before);

  const Request long_one{.prompt = "A", .max_tokens = 200, .ignore_eos = true};
  RequestHandle running = engine.submit(long_one);
  ASSERT_TRUE(running.next());
  engine.update_weights(tensors_of(tensors), RunningRequests::kCancel);
  EXPECT_EQ(running.wait().at(0).finish, Finish::kCancelled);
}

}  // namespace
}  // namespace serval
